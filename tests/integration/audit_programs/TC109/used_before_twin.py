"""A shallow copy is used before the training alone."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
shallow = copy.copy(model)
with torch.no_grad():
    first = shallow(torch.ones(1, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
print(torch.dist(model(torch.ones(1, 4)), first).item())
