"""The loss of a step is detached for the log."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
log = []
for _epoch in range(20):
    predictions = model(torch.randn(32, 64))
    loss = nn.functional.cross_entropy(predictions, torch.randint(10, (32,)))
    loss_detached = loss.detach()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log.append(loss_detached.item())
print(sum(log) / len(log))
