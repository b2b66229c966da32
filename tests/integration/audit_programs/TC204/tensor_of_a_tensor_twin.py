"""`torch.tensor` of a list, and a clone of a tensor."""

import torch

torch.manual_seed(0)
source = torch.randn(100, 100)
copied = source.clone()
copied[0] = torch.tensor([1.0] * 100)
source.zero_()
print(copied.sum().item())
