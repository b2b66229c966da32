"""A slice of the list of parameters is another list, of the same parameters: how far they moved is nowhere."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 3)
parameters = list(model.parameters())
optimizer = torch.optim.SGD(parameters, lr=0.1)
start = parameters[:]  # TC109: taken
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(16, 5)).square().mean().backward()
    optimizer.step()  # TC109: overwritten
with torch.no_grad():
    moved = [(p - old).norm() for p, old in zip(parameters, start, strict=True)]  # TC109: used
print(float(sum(moved)))
