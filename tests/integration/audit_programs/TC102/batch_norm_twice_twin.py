"""Two forwards before one backward: the second writes the running statistics, which training does not use."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    first = model(torch.randn(16, 4)).mean()
    second = model(torch.randn(16, 4)).square().mean()
    (first + second).backward()
    optimizer.step()
