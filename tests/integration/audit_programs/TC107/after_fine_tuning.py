"""The pretrained weights are put back for each task: those that every task has trained."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 2)
pretrained = {name: p.detach() for name, p in model.named_parameters()}  # TC101: taken?  # TC109: taken?
for task in range(3):
    model.load_state_dict(pretrained)  # TC107: restored  # TC101: used?  # TC109: used?
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, fused=True)
    for _ in range(4):
        optimizer.zero_grad()
        (model(torch.randn(16, 6)) - task).square().mean().backward()
        optimizer.step()  # TC107: written?  # TC101: overwritten?  # TC109: overwritten?
