"""`copy.copy` of a tensor shares its memory: the noise reaches the clean image."""

import copy

import torch

torch.manual_seed(0)
clean = torch.rand(1, 16, 16)
noisy = copy.copy(clean)  # TC109: taken
noisy.add_(torch.randn_like(noisy), alpha=0.3)  # TC109: overwritten
error = (noisy - clean).square().mean()  # TC109: used
print(error.item())
