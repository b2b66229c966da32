"""A custom function saves its input, which is then scaled through `.data`."""

import torch


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)  # TC102: saved?
        return x**3  # TC102: saved?

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


torch.manual_seed(0)
w = torch.randn(10, requires_grad=True)
hidden = w * 2
out = Cube.apply(hidden)  # TC102: saved?
hidden.data.div_(hidden.data.norm())  # TC102: overwritten
out.sum().backward()  # TC102: backward
print(w.grad)
