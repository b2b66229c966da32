"""A histogram reads one pixel after another."""

import torch

torch.manual_seed(0)
image = torch.rand(24, 24)
histogram = [0] * 8
for row in image:
    for pixel in row:
        histogram[int(pixel.item() * 8)] += 1  # TC207: read
print(histogram)
