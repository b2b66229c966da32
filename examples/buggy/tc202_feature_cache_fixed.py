"""Caches features by pixel: the transpose is made contiguous, which copies it."""

import torch
from digits_data import load
from torch import Tensor

(images, _), _, _ = load(train=1200)
cache: list[Tensor] = []
copied = 0
for shift in range(100):
    features = torch.roll(images, shift, 1)
    by_pixel = features.t().contiguous()
    copied += by_pixel.nbytes
    by_pixel.sub_(by_pixel.mean())
    cache[:] = [*cache[-9:], by_pixel]
print(f"mean of the cache: {float(sum(each.abs().mean() for each in cache)) / len(cache):.4f}")
print(f"copied: {copied / 1e6:.2f} MB")
