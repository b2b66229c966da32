"""An anchor that the weights shall stay near, as a dict of the weights themselves: the penalty is always 0."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
anchor = {name: p.detach() for name, p in model.named_parameters()}  # TC109: taken
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(5):
    loss = (model(torch.randn(16, 4)) - 2).square().mean()
    for name, p in model.named_parameters():
        loss = loss + 10 * (p - anchor[name]).square().sum()  # TC109: used
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # TC109: overwritten
