"""A layer is told its parent's scale at each call."""

import copy

import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, scale):
        return self.linear(x) * scale


class Parent(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.child = Scaled()

    def forward(self, x):
        return self.child(x, self.scale)


torch.manual_seed(0)
parent = Parent()
copied = copy.deepcopy(parent)
copied(torch.randn(8, 4)).square().mean().backward()
print(copied.scale.grad is None, parent.scale.grad is None)
