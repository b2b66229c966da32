"""A clone is trained through, and what was detached of it is only read."""

import torch
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(32, 32)
for _ in range(4):
    hidden = layer(torch.randn(16, 32))
    branch = hidden.clone()
    branch.relu_()
    largest = branch.detach().max()
    (branch.mean() + hidden.square().mean()).backward()
print(largest.item())
