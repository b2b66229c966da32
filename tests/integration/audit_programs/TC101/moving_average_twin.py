"""A moving average that reads a fresh state_dict after each step."""

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 4), torch.randn(64, 1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
average = {name: value.clone() for name, value in model.state_dict().items()}
for _ in range(10):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    for name, value in model.state_dict().items():
        average[name].lerp_(value, 0.1)
model.load_state_dict(average)
