"""Weights get other data between forward and backward: a linear layer has saved a view of the data that was."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
for _ in range(3):
    loss = model(torch.randn(8, 3)).square().mean()
    model[2].weight.data = model[2].weight.data * 0.5
    loss.backward()
print(model[0].weight.grad.norm().item())
