"""A hook adds what another layer says, and holds that layer of the original."""

import copy

import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear, self.adapter = nn.Linear(width, width), nn.Linear(width, width)
        adapter = self.adapter
        self.linear.register_forward_hook(lambda _, inputs, out: out + adapter(inputs[0]))  # TC108: read

    def forward(self, x):
        return self.linear(x)


torch.manual_seed(0)
first = Adapted(4)
second = copy.deepcopy(first)  # TC108: copied
optimizer = torch.optim.Adam(second.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    second(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
print(torch.dist(first.adapter.weight, second.adapter.weight).item())
