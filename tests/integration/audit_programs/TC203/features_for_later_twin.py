"""Features are detached and then cloned."""

import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(64, 128), nn.Linear(128, 2)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
for _ in range(8):
    features = torch.relu(body(torch.randn(64, 64)))
    kept = features.detach().clone()
    kept.mul_(0.5)
    loss = head(features).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(kept.mean().item())
