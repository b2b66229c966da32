"""A square's input is copied and the copy cleared."""

import torch

x = torch.tensor([1.0], requires_grad=True)
y = torch.tensor([1.0], requires_grad=True)
z = x * x + y
x_copy = x.data.clone()
x_copy.zero_()
z.backward()
print(x.grad, y.grad)
