"""Pixels are normalised out of place as a tensor; the array that is shown afterwards is as it was."""

import numpy as np
import torch


def normalise(image):
    return image.sub(image.mean()).div(image.std())


pixels = np.random.default_rng(0).random((32, 32), dtype=np.float32)
image = torch.from_numpy(pixels)
features = normalise(image)
print(features.std().item(), pixels.min(), pixels.max())
