"""A scale gets other data before the forward."""

import torch
from torch import nn

torch.manual_seed(0)
layer, scale = nn.Linear(3, 6), nn.Parameter(torch.ones(6))
for _ in range(3):
    scale.data = scale.data * 0.5
    loss = (layer(torch.randn(8, 3)) * scale).square().mean()
    loss.backward()
print(layer.weight.grad.norm().item())
