"""A buffer is filled with the next batch through `.data` before the backward of this one."""

import torch
from torch import nn

torch.manual_seed(0)
batch = torch.empty(16, 4)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch.copy_(torch.randn(16, 4))
for _ in range(4):
    loss = model(batch).square().mean()  # TC102: saved
    batch.data.copy_(torch.randn(16, 4))  # TC102: overwritten
    optimizer.zero_grad()
    loss.backward()  # TC102: backward
    optimizer.step()
