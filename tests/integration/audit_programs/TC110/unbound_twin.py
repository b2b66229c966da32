"""A sum of the parts that `unbind` gives is kept."""

import torch

torch.manual_seed(0)


def channel(image):
    first, *rest = image.unbind(-1)
    return first + sum(rest)


channels = [channel(torch.rand(256, 256, 32)) for _ in range(4)]
print(sum(float(each.sum()) for each in channels))
