"""A closure over a module-level table that belongs to no module: shared, as it was meant."""

import copy

import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.shift = lambda x: x + table[: x.shape[0]]

    def forward(self, x):
        return self.linear(self.shift(x))


torch.manual_seed(0)
model = Positions(torch.arange(32.0).reshape(8, 4))
frozen = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for _ in range(3):
    optimizer.zero_grad()
    (model(torch.randn(8, 4)) - frozen(torch.randn(8, 4))).square().mean().backward()
    optimizer.step()
