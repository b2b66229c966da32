"""Back to the moments of Adam before a bad step, from a deep copy of its state_dict."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(16, 4)
model = nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def step(factor):
    optimizer.zero_grad()
    (model(x) * factor).square().mean().backward()
    optimizer.step()


for _ in range(4):
    step(1.0)
kept = copy.deepcopy(optimizer.state_dict())
step(1000.0)
optimizer.load_state_dict(kept)
