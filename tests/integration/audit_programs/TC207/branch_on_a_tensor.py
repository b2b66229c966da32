"""Each gradient is clipped if it is large: `if` reads a tensor for each parameter of a deep network."""

import torch
from torch import nn


def clip(parameters):
    for p in parameters:
        norm = p.grad.norm()
        if norm > 0.5:  # TC207: read
            p.grad.mul_(0.5 / norm)


torch.manual_seed(0)
model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(12)])
optimizer = torch.optim.Adam(model.parameters())
for _ in range(20):
    optimizer.zero_grad()
    model(torch.randn(16, 8)).square().mean().backward()
    clip(model.parameters())
    optimizer.step()
