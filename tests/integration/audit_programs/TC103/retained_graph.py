"""The graph is kept for a second backward, but the optimizer has stepped in between."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
out = model(torch.randn(8, 4))  # TC103: saved
optimizer.zero_grad()
out[:, 0].mean().backward(retain_graph=True)
optimizer.step()  # TC103: overwritten
out[:, 1].mean().backward()  # TC103: backward
optimizer.step()
