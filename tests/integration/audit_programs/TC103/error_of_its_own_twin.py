"""A backward through a freed graph raises too, and no write is to blame."""

import contextlib

import torch

x = torch.ones(3, requires_grad=True)
y = (x * x).sum()
y.backward()
with contextlib.suppress(RuntimeError):
    y.backward()
with torch.no_grad():
    x -= 0.1 * x.grad
print(x)
