"""Has the weight moved? A clone of `weight.data` of before tells."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
old = model[0].weight.data.clone()
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(16, 4)).square().mean().backward()
    optimizer.step()
print(torch.equal(model[0].weight, old))
