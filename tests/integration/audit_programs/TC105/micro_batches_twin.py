"""Twelve micro-batches an iteration, each sent backward at once; their losses are kept until the step."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    losses, total = [], 0
    for micro_batch in torch.randn(12, 8, 8):
        loss = model(micro_batch).square().mean() / 12
        losses.append(loss)
        total = total + loss
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(round(total.item(), 4), round(max(loss.item() for loss in losses), 4))
