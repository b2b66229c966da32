"""Weights are moved out of the way and given back by `p.data = …`: nothing writes to them meanwhile."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
original = [p.data for p in model.parameters()]
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(16, 4)).square().mean().backward()
    optimizer.step()
    with torch.no_grad():
        for p, value in zip(model.parameters(), original, strict=True):
            p.data = value + 0.01 * torch.randn_like(value)
        print(round(model(torch.ones(1, 4)).item(), 4))
        for p, value in zip(model.parameters(), original, strict=True):
            p.data = value
