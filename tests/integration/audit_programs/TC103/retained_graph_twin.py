"""The graph is kept for a second backward, and the optimizer steps after both."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
out = model(torch.randn(8, 4))
optimizer.zero_grad()
out[:, 0].mean().backward(retain_graph=True)
out[:, 1].mean().backward()
optimizer.step()
