"""A rollback to `p.data` of before: it is what the parameters have."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=2.5)
held_out = torch.randn(32, 4)
lowest = float("inf")
for _ in range(6):
    before = {name: p.data for name, p in model.named_parameters()}  # TC109: taken
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()  # TC109: overwritten
    loss = model(held_out).square().mean().item()
    if loss > lowest:
        for name, p in model.named_parameters():
            p.data.copy_(before[name])  # TC109: used
    lowest = min(lowest, loss)
