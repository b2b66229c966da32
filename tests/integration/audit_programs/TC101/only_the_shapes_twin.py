"""A state_dict kept for names and sizes: those do not change."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state = model.state_dict()
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(16, 4)).square().mean().backward()
    optimizer.step()
for name, value in state.items():
    print(name, tuple(value.shape), value.dtype, value.numel())
