"""The running statistics are set back through `.data` between a forward in training and its backward."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    loss = model(torch.randn(16, 4)).square().mean()
    model[1].running_mean.data.zero_()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
