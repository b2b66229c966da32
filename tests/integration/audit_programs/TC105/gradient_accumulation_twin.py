"""Losses of a few micro-batches are summed with their graphs, then sent backward together."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    losses = []
    for micro_batch in torch.randn(4, 8, 8):
        losses.append(model(micro_batch).square().mean())  # noqa: PERF401
    optimizer.zero_grad()
    torch.stack(losses).mean().backward()
    optimizer.step()
