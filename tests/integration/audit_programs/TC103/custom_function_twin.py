"""A custom function saves its output, and the caller adds to it out of place."""

import torch


class Softplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = x.exp().log1p()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        return grad * (1 - (-out).exp())


x = torch.linspace(-1, 1, 5, requires_grad=True)
y = Softplus.apply(x)
y = y + 1e-6
y.log().sum().backward()
print(x.grad)
