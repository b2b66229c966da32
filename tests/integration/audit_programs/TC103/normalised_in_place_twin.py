"""A norm saves its input, which is then divided by it out of place."""

import torch

torch.manual_seed(0)
weight = torch.randn(8, 4, requires_grad=True)
features = weight.exp()
features = features / features.detach().norm(dim=1, keepdim=True)
features.sum().backward()
print(weight.grad.shape)
