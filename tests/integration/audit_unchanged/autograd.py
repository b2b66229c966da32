"""Gradients of first and second order, kept graphs, gradients of non-leaves, anomaly mode."""

import warnings

import torch
from audit_shown import show

torch.manual_seed(0)
x = torch.randn(5, 4, requires_grad=True)
w = torch.randn(4, 3, requires_grad=True)
y = (x @ w).tanh()
y.retain_grad()
loss = (y * y).sum() + y.logsumexp(1).sum()
loss.backward(retain_graph=True)
loss.backward()
show(x=x.grad, w=w.grad, y=y.grad)
(gradient,) = torch.autograd.grad((x @ w).sigmoid().prod(), x, create_graph=True)
gradient.norm().backward()
show(second=x.grad)
v = torch.ones(3, requires_grad=True)
view = (v * 2).view(3, 1)
view.mul_(v.view(3, 1)).add_(1)
view.sum().backward()
print(v.grad, view.grad_fn, v._version, view._version, view._base is None)
try:
    loss.backward()
except RuntimeError as error:
    print(error)
with warnings.catch_warnings(record=True) as caught, torch.autograd.detect_anomaly(check_nan=True):
    z = torch.tensor([0.0], requires_grad=True)
    try:
        (z / z).sqrt().backward()
    except RuntimeError as error:
        print(error)
print([[line for line in str(each.message).splitlines() if __file__ in line] for each in caught])
print(torch.autograd.functional.hessian(lambda t: (t**3).sum(), torch.arange(3.0)))
