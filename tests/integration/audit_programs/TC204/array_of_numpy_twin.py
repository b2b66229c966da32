"""`torch.tensor` of arrays and of numbers: a copy that is meant."""

import numpy as np
import torch
from torch import nn

random = np.random.default_rng(0)
torch.manual_seed(0)
pixels, classes = random.random((90, 16)), random.integers(0, 3, 90)
images = torch.tensor(pixels, dtype=torch.float32)
labels = torch.tensor(classes)
pixels[:] = 0
classes[:] = 0
model = nn.Linear(16, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1))
for _ in range(3):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
print(labels.bincount().tolist())
