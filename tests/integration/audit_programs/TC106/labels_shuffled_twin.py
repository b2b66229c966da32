"""Labels are shuffled in NumPy into another array."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
random = np.random.default_rng(0)
labels = random.integers(0, 3, 60)
inputs = torch.randn(60, 5)
targets = torch.as_tensor(labels)
shuffled = random.permutation(labels)
baseline = (shuffled == 0).mean()
model = nn.Linear(5, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = nn.functional.cross_entropy(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(baseline, loss.item())
