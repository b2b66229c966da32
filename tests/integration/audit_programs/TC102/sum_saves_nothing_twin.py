"""`.data` writes an operand of a sum: a sum has saved nothing."""

import torch

x = torch.ones(5, requires_grad=True)
y = torch.ones(5, requires_grad=True)
z = x * 2 + y - 3
x.data.zero_()
y.data.fill_(7)
z.sum().backward()
assert x.grad.eq(2).all()
assert y.grad.eq(1).all()
