"""The loss on a batch that was held out, once in each epoch, with its graph."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
held_out, history = torch.randn(64, 8), []
for _epoch in range(12):
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(16, 8)).square().mean().backward()
        optimizer.step()
    validation = model(held_out).square().mean()  # TC105: made
    history.append(validation)  # TC105: kept
print(min(history).item())
