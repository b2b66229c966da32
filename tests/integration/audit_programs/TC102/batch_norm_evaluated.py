"""A target from the model in evaluation, with its graph; the forward in training then moves the statistics."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    x = torch.randn(16, 4)
    model.eval()
    steady = model(x)  # TC102: saved
    model.train()
    noisy = model(x + 0.1 * torch.randn(16, 4))  # TC102: overwritten
    loss = (noisy - steady).square().mean() + (steady - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()  # TC102: backward
    optimizer.step()
