"""A mask of booleans is converted to float once."""

import torch
from torch import nn

torch.manual_seed(0)
mask = torch.rand(256, 256) > 0.5
layer = nn.Linear(256, 256, bias=False)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
factor = mask.float()
for _ in range(40):
    out = nn.functional.linear(torch.randn(8, 256), layer.weight * factor)
    optimizer.zero_grad()
    out.square().mean().backward()
    optimizer.step()
