"""A moving average reads the live parameters from a list that was made once."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
average = copy.deepcopy(model)
live, means = list(model.parameters()), list(average.parameters())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    with torch.no_grad():
        torch._foreach_lerp_(means, live, 0.1)
print(average(torch.ones(1, 4)).sum().item())
