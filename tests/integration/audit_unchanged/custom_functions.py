"""`autograd.Function` in both styles: saving, marking, materialising, double backward, errors in backward."""

import torch
from audit_shown import show
from torch.autograd.function import once_differentiable


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.calls = 1
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2


class Split(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.clone(), x.sign()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad, unused):
        print(unused is None)
        return grad


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.mark_dirty(x)
        ctx.factor = factor
        return x.mul_(factor)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * ctx.factor, None


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("no gradient today")


torch.manual_seed(0)
x = torch.randn(4, requires_grad=True, dtype=torch.double)
print(torch.autograd.gradcheck(Cube.apply, x), torch.autograd.gradgradcheck(Cube.apply, x))
(first,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
first.sum().backward()
both, signs = Split.apply(x)
scaled = Scale.apply(both * 1, 3.0)
scaled.sum().backward()
show(x=x.grad, both=both, signs=signs, scaled=scaled)
print(scaled.grad_fn, scaled._version, signs.requires_grad)
print(torch.func.vmap(Split.apply)(torch.arange(6.0).view(2, 3)))
try:
    Fails.apply(x).sum().backward()
except ValueError as error:
    print(error, [frame.name for frame in __import__("traceback").extract_tb(error.__traceback__)][-1])
