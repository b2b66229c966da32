"""The model is evaluated between a forward in training and its backward, which uses no running statistics."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(24, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    first = model(torch.randn(16, 2, 8)).square().mean()
    model.eval()
    with torch.no_grad():
        print(float(model(torch.ones(1, 2, 8))))
    print(float(model(torch.zeros(1, 2, 8))))
    model.train()
    second = model(torch.randn(16, 2, 8)).square().mean()
    optimizer.zero_grad()
    (first + second).backward()
    optimizer.step()
