"""The array is read before the write, and gone by then."""

import numpy as np
import torch

torch.manual_seed(0)
values = torch.randn(100)


def highest(tensor):
    array = tensor.numpy()
    return np.partition(array, -5)[-5:].sum()


first = highest(values)
values.mul_(0.5)
print(first, highest(values))
