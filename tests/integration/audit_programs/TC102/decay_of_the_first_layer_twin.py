"""Weight decay between forward and backward, of the one layer whose weight backward does not need."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(5):
    optimizer.zero_grad()
    loss = model(torch.randn(16, 4)).square().mean()
    model[0].weight.data.mul_(0.9)  # its input needs no gradient, so nothing was saved
    loss.backward()
    optimizer.step()
