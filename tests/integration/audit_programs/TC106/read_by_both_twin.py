"""A tensor and an array of one memory, read and never written."""

import numpy as np
import torch

data = np.random.default_rng(0).random((200, 8), dtype=np.float32)
inputs = torch.from_numpy(data)
weight = torch.ones(8, requires_grad=True)
for _ in range(3):
    (inputs @ weight).square().mean().backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
        weight.grad.zero_()
print(data.mean(axis=0), inputs.mean(0).tolist())
