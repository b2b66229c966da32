"""Meta-learning copies the whole model for each task."""

import copy

import torch
from torch import nn


def adapt(model, x):
    fast = copy.deepcopy(model)  # TC208: copied
    optimizer = torch.optim.SGD(fast.parameters(), lr=0.1)
    fast(x).square().mean().backward()
    optimizer.step()
    return fast


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
for _task in range(50):
    fast = adapt(model, torch.randn(8, 8))
    with torch.no_grad():
        for p, q in zip(model.parameters(), fast.parameters(), strict=True):
            p.lerp_(q, 0.1)
