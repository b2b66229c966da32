"""ReLU in place on the output of layers that do not save it."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(4 * 36, 2)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    out = model(torch.randn(4, 1, 8, 8))
    out += 1
    out *= 2
    optimizer.zero_grad()
    out.square().mean().backward()
    optimizer.step()
