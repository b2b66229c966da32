"""A moving average of weights in a list that has the weights' own memory."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
shadow = [p.data for p in model.parameters()]  # TC109: taken
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(16, 4)).square().mean().backward()
    optimizer.step()  # TC109: overwritten
    with torch.no_grad():
        for mean, p in zip(shadow, model.parameters(), strict=True):
            mean.lerp_(p, 0.1)  # TC109: used
print(float(sum(mean.norm() for mean in shadow)))
