"""A clone is changed and cloned again: both are different values."""

import torch

torch.manual_seed(0)
image = torch.rand(200, 200)
for _ in range(3):
    brighter = image.clone()
    brighter.mul_(1.2)
    noisy = brighter.clone()
    noisy.add_(torch.randn_like(noisy))
    brighter.clamp_(0, 1)
    image.copy_((noisy + brighter) / 2)
