"""Parameters are cloned with their graph, which is then thrown away."""

import torch
from torch import nn


def snapshot(model):
    return [p.clone().detach() for p in model.parameters()]  # TC203: copied


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(80, 80), nn.Tanh(), nn.Linear(80, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(4):
    before = snapshot(model)
    optimizer.zero_grad()
    model(torch.randn(32, 80)).square().mean().backward()
    optimizer.step()
    moved = [torch.dist(p.detach(), old) for p, old in zip(model.parameters(), before, strict=True)]
print(torch.stack(moved).tolist())
