"""`clone().detach()` where there is no graph."""

import torch
from torch import nn

torch.manual_seed(0)
model, x = nn.Linear(64, 64), torch.randn(32, 64)
with torch.no_grad():
    for _ in range(4):
        kept = model(x).clone().detach()
        kept.add_(1)
        x.copy_(kept)
print(x.mean().item())
