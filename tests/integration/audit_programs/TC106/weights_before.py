"""How far did the weights move? `numpy()` shares their memory: not at all, it seems."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
before = model.weight.detach().numpy()  # TC106: shared
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 6)).square().mean().backward()
    optimizer.step()  # TC106: written
after = model.weight.detach().numpy()
print(np.abs(after - before).max())  # TC106: used?
