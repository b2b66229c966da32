"""A state_dict that is taken, trained over and never read again."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
backup = model.state_dict()
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(16, 4)).square().mean().backward()
    optimizer.step()
    loss_is_nan = False
if loss_is_nan:
    model.load_state_dict(backup)
