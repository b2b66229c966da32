"""Each fold starts from the same weights, those of a deep copy."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(60, 4), torch.randn(60, 1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
untrained = copy.deepcopy(model)
for fold in range(3):
    model.load_state_dict(untrained.state_dict())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(5):
        rows = torch.arange(60) % 3 != fold
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[rows]), y[rows]).backward()
        optimizer.step()
