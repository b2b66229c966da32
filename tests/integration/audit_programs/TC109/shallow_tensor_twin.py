"""`copy.deepcopy` of a tensor: the noise does not reach the clean image."""

import copy

import torch

torch.manual_seed(0)
clean = torch.rand(1, 16, 16)
noisy = copy.deepcopy(clean)
noisy.add_(torch.randn_like(noisy), alpha=0.3)
error = (noisy - clean).square().mean()
print(error.item())
