"""Activations are converted, which copies them."""

import torch

torch.manual_seed(0)
activations, cache = torch.randn(256, 256), []
for _ in range(4):
    cache.append(activations.to(torch.bfloat16))
    activations.mul_(1.1)
print(sum(float(each.sum()) for each in cache))
