"""Each gradient is clipped by a factor that stays a tensor."""

import torch
from torch import nn


def clip(parameters):
    for p in parameters:
        norm = p.grad.norm()
        p.grad.mul_((0.5 / norm).clamp(max=1.0))


torch.manual_seed(0)
model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(12)])
optimizer = torch.optim.Adam(model.parameters())
for _ in range(20):
    optimizer.zero_grad()
    model(torch.randn(16, 8)).square().mean().backward()
    clip(model.parameters())
    optimizer.step()
