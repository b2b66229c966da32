"""A scale gets other data between forward and backward: a product has saved the parameter itself."""

import torch
from torch import nn

torch.manual_seed(0)
layer, scale = nn.Linear(3, 6), nn.Parameter(torch.ones(6))
for _ in range(3):
    loss = (layer(torch.randn(8, 3)) * scale).square().mean()  # TC102: saved
    scale.data = scale.data * 0.5  # TC102: overwritten
    loss.backward()  # TC102: backward
print(layer.weight.grad.norm().item())
