"""A layer knows its parent by a weak reference, which a deep copy leaves pointing at the original."""

import copy
import weakref

import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self, parent):
        super().__init__()
        self.linear, self.parent = nn.Linear(4, 4), weakref.ref(parent)

    def forward(self, x):
        return self.linear(x) * self.parent().scale  # TC108: read


class Parent(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.child = Scaled(self)

    def forward(self, x):
        return self.child(x)


torch.manual_seed(0)
parent = Parent()
copied = copy.deepcopy(parent)  # TC108: copied
copied(torch.randn(8, 4)).square().mean().backward()
print(copied.scale.grad is None, parent.scale.grad is None)
