"""A buffer is filled with the next batch after the backward of this one."""

import torch
from torch import nn

torch.manual_seed(0)
batch = torch.empty(16, 4)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch.copy_(torch.randn(16, 4))
for _ in range(4):
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    batch.data.copy_(torch.randn(16, 4))
