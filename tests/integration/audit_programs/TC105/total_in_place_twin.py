"""The losses of an epoch, summed in place into one tensor without a graph."""

import torch
from torch import nn


def epoch(model, optimizer, batches):
    total = torch.zeros(())
    for batch in batches:
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total / len(batches)


torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print(f"{float(epoch(model, optimizer, torch.randn(40, 16, 8))):.4f}")
