"""The bias after each epoch, for a plot: `numpy()` gives the same memory each time."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
curve = []
for _epoch in range(6):
    optimizer.zero_grad()
    (model(torch.randn(8, 3)) - 1).square().mean().backward()
    optimizer.step()  # TC106: written
    curve.append(model.bias.detach().numpy())  # TC106: shared
print(np.stack(curve).std(axis=0))  # TC106: used?
