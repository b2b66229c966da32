"""The first row of each large batch, cloned, kept for a gallery."""

import torch

torch.manual_seed(0)
gallery = []
for _ in range(10):
    batch = torch.randn(256, 32, 64)
    features = batch * 2 + 1
    gallery.append(features[0].clone())
print(torch.stack(gallery).mean().item())
