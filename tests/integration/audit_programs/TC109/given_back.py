"""The weights of before are given back by `p.data = …`: they were overwritten in place."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
initial = [p.data for p in model.parameters()]  # TC109: taken
for lr in (0.1, 0.01):
    for p, old in zip(model.parameters(), initial, strict=True):
        p.data = old  # TC109: used
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 4)).square().mean()
        loss.backward()
        optimizer.step()  # TC109: overwritten
    print(lr, round(loss.item(), 4))
