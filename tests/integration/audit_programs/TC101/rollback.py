"""Back to where the loss was lower, from the live tensors: it goes nowhere."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(32, 4)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
safe = model.state_dict()  # TC101: taken
for _ in range(3):
    optimizer.zero_grad()
    (-model(x).square().mean()).backward()
    optimizer.step()  # TC101: overwritten
model.load_state_dict(safe)  # TC101: used  # TC107: restored?
