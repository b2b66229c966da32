"""One deep copy after each of three epochs."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _epoch in range(3):
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(16, 16)).square().mean().backward()
        optimizer.step()
    best = copy.deepcopy(model)
optimizer.zero_grad()
model(torch.randn(16, 16)).square().mean().backward()
optimizer.step()
print(torch.dist(model.weight, best.weight).item())
