"""Batch norms that stay in evaluation while all else is trained: nobody writes their statistics."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
for _ in range(3):
    model(torch.randn(16, 4))
model[1].eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    losses = [model(torch.randn(16, 4)).square().mean() for _ in range(2)]
    optimizer.zero_grad()
    sum(losses).backward()
    optimizer.step()
