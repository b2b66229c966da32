"""Back to the moments of Adam before a bad step: they went along, the optimizer's state_dict holds them live."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(16, 4)
model = nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def step(factor):
    optimizer.zero_grad()
    (model(x) * factor).square().mean().backward()
    optimizer.step()  # TC101: overwritten


for _ in range(4):
    step(1.0)
kept = optimizer.state_dict()  # TC101: taken
step(1000.0)
optimizer.load_state_dict(kept)  # TC101: used
