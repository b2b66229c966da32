"""How far did the weights move? A copy of the array knows."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
before = model.weight.detach().numpy().copy()
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 6)).square().mean().backward()
    optimizer.step()
after = model.weight.detach().numpy()
print(np.abs(after - before).max())
