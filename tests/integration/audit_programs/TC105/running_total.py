"""The sum of the losses of an epoch: a chain of graphs."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters())
total = 0
for _ in range(40):
    optimizer.zero_grad()
    loss = model(torch.randn(32, 8)).square().mean()  # TC105: made
    loss.backward()
    optimizer.step()
    total = total + loss  # TC105: kept
print(f"{float(total) / 40:.4f}")
