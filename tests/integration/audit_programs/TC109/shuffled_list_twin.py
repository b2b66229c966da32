"""A list of running sums is copied to be shuffled, and another to be used up: neither is to keep its values."""

import copy
import random

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
model = nn.Linear(10, 3)
sums = [torch.zeros(10) for _ in range(5)]
order = copy.copy(sums)
random.shuffle(order)
for batch in torch.randn(20, 8, 10):
    for each in order:
        each.add_(batch.mean(0))
    print(float(nn.functional.cross_entropy(model(torch.stack(sums)), torch.zeros(5, dtype=torch.long))))
left = copy.copy(sums)
while left:
    each = left.pop()
    each.mul_(0.5)
print(float(model(torch.stack(sums)).sum()))
