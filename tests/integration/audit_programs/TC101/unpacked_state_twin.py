"""A dict of its own, with clones in it."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = {name: value.clone() for name, value in {**model.state_dict()}.items()}
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(16, 4)).square().mean().backward()
    optimizer.step()
model.load_state_dict(kept)
