"""The latest six losses with their graphs: they fill up while the program has just begun, and grow no more."""

from collections import deque

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
recent = deque(maxlen=6)
for _ in range(40):
    loss = model(torch.randn(16, 8)).square().mean()
    recent.append(loss)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(sum(loss.item() for loss in recent))
