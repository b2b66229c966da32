"""A moving average of weights in a list of clones."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
shadow = [p.data.clone() for p in model.parameters()]
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(16, 4)).square().mean().backward()
    optimizer.step()
    with torch.no_grad():
        for mean, p in zip(shadow, model.parameters(), strict=True):
            mean.lerp_(p, 0.1)
print(float(sum(mean.norm() for mean in shadow)))
