"""A recurrent network whose state is carried through a whole sequence with its graph."""

import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRUCell(4, 16), nn.Linear(16, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.01)
stream = torch.randn(40, 8, 4)
state = torch.zeros(8, 16)
for x in stream:
    state = cell(x, state)  # TC105: kept
    running = head(state.detach()).square().mean()
    running.backward()
    optimizer.step()
    optimizer.zero_grad()
print(state.norm().item())
