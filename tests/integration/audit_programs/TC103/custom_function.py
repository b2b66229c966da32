"""A custom function saves its output, and the caller adds to it in place."""

import torch


class Softplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = x.exp().log1p()  # TC103: saved?
        ctx.save_for_backward(out)  # TC103: saved?
        return out

    @staticmethod
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        return grad * (1 - (-out).exp())


x = torch.linspace(-1, 1, 5, requires_grad=True)
y = Softplus.apply(x)  # TC103: saved?
y.add_(1e-6)  # TC103: overwritten
y.log().sum().backward()  # TC103: backward
print(x.grad)
