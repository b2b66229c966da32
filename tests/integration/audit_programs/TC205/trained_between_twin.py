"""Weights are converted in each step, after each of which they are others."""

import torch
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(64, 64)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(30):
    x = torch.randn(8, 64, dtype=torch.bfloat16)
    out = nn.functional.linear(x, layer.weight.bfloat16(), layer.bias.bfloat16())
    optimizer.zero_grad()
    out.float().square().mean().backward()
    optimizer.step()
