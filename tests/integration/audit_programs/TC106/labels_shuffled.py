"""Labels are shuffled in NumPy for a baseline, after `as_tensor` has shared them with training."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
random = np.random.default_rng(0)
labels = random.integers(0, 3, 60)
inputs = torch.randn(60, 5)
targets = torch.as_tensor(labels)  # TC106: shared
random.shuffle(labels)  # TC106: written?
baseline = (labels == 0).mean()
model = nn.Linear(5, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = nn.functional.cross_entropy(model(inputs), targets)  # TC106: used
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(baseline, loss.item())
