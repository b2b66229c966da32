"""A norm saves its input, which is then divided by it in place."""

import torch

torch.manual_seed(0)
weight = torch.randn(8, 4, requires_grad=True)
features = weight.exp()  # TC103: saved
features /= features.detach().norm(dim=1, keepdim=True)  # TC103: overwritten
features.sum().backward()  # TC103: backward
print(weight.grad.shape)
