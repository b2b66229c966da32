"""A hook adds what another layer of the module that it is given says."""

import copy

import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear, self.adapter = nn.Linear(width, width), nn.Linear(width, width)
        self.register_forward_hook(lambda module, inputs, out: out + module.adapter(inputs[0]))

    def forward(self, x):
        return self.linear(x)


torch.manual_seed(0)
first = Adapted(4)
second = copy.deepcopy(first)
optimizer = torch.optim.Adam(second.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    second(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
print(torch.dist(first.adapter.weight, second.adapter.weight).item())
