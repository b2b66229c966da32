"""The statistics of a BatchNorm before and after a pass: the pass itself writes what was kept."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
before = model.state_dict()  # TC101: taken
with torch.no_grad():
    for _ in range(3):
        model(torch.randn(4, 3, 10, 10) + 2)  # TC101: overwritten
drift = model[1].running_mean - before["1.running_mean"]  # TC101: used
print(drift.abs().max().item())
