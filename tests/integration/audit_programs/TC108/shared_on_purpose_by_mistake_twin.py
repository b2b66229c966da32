"""A submodule is copied as all others are."""

import copy

import torch
from torch import nn


class Encoder(nn.Linear):
    def __repr__(self):
        return "Encoder()"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = Encoder(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(torch.relu(self.encoder(x)))


torch.manual_seed(0)
online = Net()
target = copy.deepcopy(online)
optimizer = torch.optim.RMSprop(online.parameters(), lr=0.01)
for _ in range(4):
    x = torch.randn(8, 4)
    with torch.no_grad():
        goal = target(x) * 0.9 + 1
    optimizer.zero_grad()
    (online(x) - goal).square().mean().backward()
    optimizer.step()
