"""Slices and copies of the list of parameters serve two groups of an optimizer, and are to be live."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 3)
parameters = list(model.parameters())
reference, frozen_first = parameters[:], copy.copy(parameters)
optimizer = torch.optim.SGD([{"params": reference[:1], "lr": 0.1}, {"params": frozen_first[1:]}], lr=0.01)
start = [p.detach().clone() for p in parameters[:]]
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(16, 5)).square().mean().backward()
    nn.utils.clip_grad_norm_(reference, 1.0)
    optimizer.step()
with torch.no_grad():
    moved = [(p - old).norm() for p, old in zip(reference, start, strict=True)]
print(float(sum(moved)))
