"""A state is cloned entry by entry, and the clones are deep-copied."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state = {name: value.clone() for name, value in model.state_dict().items()}  # TC202: copied?
best = copy.deepcopy(state)  # TC202: copied
del state
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(16, 100)).square().mean().backward()
    optimizer.step()
model.load_state_dict(best)
