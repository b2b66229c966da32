"""Activations are cloned, and the clone is converted, which copies it again."""

import torch

torch.manual_seed(0)
activations, cache = torch.randn(256, 256), []
for _ in range(4):
    cache.append(activations.clone().to(torch.bfloat16))  # TC202: copied
    activations.mul_(1.1)
print(sum(float(each.sum()) for each in cache))
