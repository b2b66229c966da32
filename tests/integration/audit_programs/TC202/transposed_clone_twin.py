"""A transpose is made contiguous, which copies it."""

import torch

torch.manual_seed(0)
weight = torch.randn(300, 200)
for _ in range(5):
    kept = weight.t().contiguous()
    kept.mul_(2)
    weight.add_(kept.t(), alpha=1e-3)
