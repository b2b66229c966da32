"""Weights are cloned to have their norm taken, and dropped before the next step."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(300, 300)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
distances = []
for _ in range(10):
    weight = model.weight.detach().clone()  # TC201: copied
    distances.append(weight.norm())
    del weight
    optimizer.zero_grad()
    model(torch.randn(8, 300)).square().mean().backward()
    optimizer.step()
print(torch.stack(distances).tolist())
