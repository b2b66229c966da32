"""A target network by `copy.deepcopy`."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
online = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
target = copy.deepcopy(online)
optimizer = torch.optim.Adam(online.parameters(), lr=0.01)
for _ in range(6):
    state, after = torch.randn(16, 4), torch.randn(16, 4)
    with torch.no_grad():
        goal = 1 + 0.9 * target(after).max(1).values
    loss = (online(state).max(1).values - goal).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
