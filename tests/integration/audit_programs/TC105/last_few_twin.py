"""The newest three losses with their graphs: a bounded number of them."""

from collections import deque

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
recent = deque(maxlen=3)
for _ in range(40):
    loss = model(torch.randn(16, 8)).square().mean()
    recent.append(loss)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print([round(loss.item(), 3) for loss in recent])
