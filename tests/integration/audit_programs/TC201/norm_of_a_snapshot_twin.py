"""Weights are cloned before a step, to see how far it went."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(300, 300)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
distances = []
for _ in range(10):
    weight = model.weight.detach().clone()
    optimizer.zero_grad()
    model(torch.randn(8, 300)).square().mean().backward()
    optimizer.step()
    distances.append(torch.dist(model.weight.detach(), weight))
print(torch.stack(distances).tolist())
