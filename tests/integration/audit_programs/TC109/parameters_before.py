"""How far did the weights move? A list of the parameters is no copy of them: nowhere."""

import torch
from torch import nn


def train(model, optimizer):
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(16, 5)).square().mean().backward()
        optimizer.step()  # TC109: overwritten


torch.manual_seed(0)
model = nn.Linear(5, 3)
before = list(model.parameters())  # TC109: taken
train(model, torch.optim.SGD(model.parameters(), lr=0.1))
with torch.no_grad():
    moved = sum(torch.dist(p, old) for p, old in zip(model.parameters(), before, strict=True))  # TC109: used
print(float(moved))
