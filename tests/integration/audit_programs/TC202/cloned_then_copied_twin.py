"""A state is cloned entry by entry."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state = {name: value.clone() for name, value in model.state_dict().items()}
best = state
del state
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(16, 100)).square().mean().backward()
    optimizer.step()
model.load_state_dict(best)
