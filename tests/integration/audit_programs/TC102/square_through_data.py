"""A square's input is cleared through `.data`: its gradient is zero, and nobody says so."""

import torch

x = torch.tensor([1.0], requires_grad=True)
y = torch.tensor([1.0], requires_grad=True)
z = x * x + y  # TC102: saved
x_copy = x.data
x_copy.zero_()  # TC102: overwritten
z.backward()  # TC102: backward
print(x.grad, y.grad)
