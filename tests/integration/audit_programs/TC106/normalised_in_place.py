"""Pixels are normalised in place as a tensor; the array that is shown afterwards is normalised as well."""

import numpy as np
import torch


def normalise(image):
    return image.sub_(image.mean()).div_(image.std())  # TC106: written


pixels = np.random.default_rng(0).random((32, 32), dtype=np.float32)
image = torch.from_numpy(pixels)  # TC106: shared
features = normalise(image)
print(features.std().item(), pixels.min(), pixels.max())  # TC106: used?
