"""A histogram is made by one operation."""

import torch

torch.manual_seed(0)
image = torch.rand(24, 24)
histogram = (image * 8).long().flatten().bincount(minlength=8).tolist()
print(histogram)
