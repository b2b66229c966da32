"""A square's input is cleared through `detach`: autograd notices."""

import torch

x = torch.tensor([1.0], requires_grad=True)
y = torch.tensor([1.0], requires_grad=True)
z = x * x + y  # TC103: saved
x_copy = x.detach()
x_copy.zero_()  # TC103: overwritten
z.backward()  # TC103: backward
print(x.grad, y.grad)
