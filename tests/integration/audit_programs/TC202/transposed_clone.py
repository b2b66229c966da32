"""A transpose is made contiguous, which copies it, and then cloned."""

import torch

torch.manual_seed(0)
weight = torch.randn(300, 200)
for _ in range(5):
    kept = weight.t().contiguous().clone()  # TC202: copied
    kept.mul_(2)
    weight.add_(kept.t(), alpha=1e-3)
