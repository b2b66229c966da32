"""A dict of its own, with the live tensors in it: `{**state}` copies none of them."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = {**model.state_dict()}  # TC101: taken
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(16, 4)).square().mean().backward()
    optimizer.step()  # TC101: overwritten
model.load_state_dict(kept)  # TC101: loaded
