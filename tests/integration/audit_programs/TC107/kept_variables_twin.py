"""`keep_vars=True` hands out the parameters themselves, which are deep-copied."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
start = {"epoch": 0, "model": copy.deepcopy(model.state_dict(keep_vars=True))}
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
model.load_state_dict(start["model"])
