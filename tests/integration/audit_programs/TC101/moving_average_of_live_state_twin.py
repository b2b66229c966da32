"""A moving average that takes the state_dict once, because it is live, and reads it after each step."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 4)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
live = model.state_dict()
average = {name: value.clone() for name, value in live.items()}
for _ in range(10):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    with torch.no_grad():
        for name in average:
            average[name].lerp_(live[name], 0.1)
model.load_state_dict(average)
