"""To half precision and back: the rounding is meant."""

import torch

torch.manual_seed(0)
weight = torch.randn(200, 200)
for _ in range(3):
    rounded = weight.half().float()
    error = (weight - rounded).abs().max()
    weight.add_(rounded, alpha=0.1)
print(error.item())
