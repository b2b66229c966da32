"""A function holds a buffer as a default argument; a deep copy shares the function."""

import copy

import torch
from torch import nn


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.linear = nn.Linear(4, 2)
        mean = self.mean

        def centre(x, mean=mean):
            return x - mean  # TC108: read

        self.centre = centre

    def forward(self, x):
        return self.linear(self.centre(x))


torch.manual_seed(0)
model = Normalised()
per_user = [copy.deepcopy(model) for _ in range(3)]  # TC108: copied
with torch.no_grad():
    for user, each in enumerate(per_user):
        each.mean.fill_(user)
        print(each(torch.ones(1, 4)).tolist())
