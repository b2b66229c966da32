"""A function is given the buffer of the module that calls it."""

import copy

import torch
from torch import nn


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.linear = nn.Linear(4, 2)

        def centre(x, mean):
            return x - mean

        self.centre = centre

    def forward(self, x):
        return self.linear(self.centre(x, self.mean))


torch.manual_seed(0)
model = Normalised()
per_user = [copy.deepcopy(model) for _ in range(3)]
with torch.no_grad():
    for user, each in enumerate(per_user):
        each.mean.fill_(user)
        print(each(torch.ones(1, 4)).tolist())
