"""`torch.func`: grad, vmap, jacobians, jvp, functional_call, and batched random numbers."""

import torch
from audit_shown import show
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
parameters = dict(model.named_parameters())
x, y = torch.randn(6, 3), torch.randn(6, 1)


def loss(parameters, x, y):
    return (functional_call(model, parameters, (x,)) - y).square().mean()


each = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
total, value = grad_and_value(loss)(parameters, x, y)
show(each=each, total=total, value=value)
f = lambda t: (t.sin() * t.clone().cos()).sum()  # noqa: E731
show(rev=jacrev(f)(x), fwd=jacfwd(f)(x), hess=hessian(f)(x[0]))
show(jvp=jvp(f, (x,), (y.expand(6, 3),)), vjp=vjp(f, x)[1](torch.tensor(1.0)))
show(noise=vmap(lambda t: t + torch.randn_like(t), randomness="different")(x))
stacked, buffers = stack_module_state([torch.nn.Linear(3, 2) for _ in range(4)])
base = torch.nn.Linear(3, 2).to("meta")
show(ensemble=vmap(lambda p, b: functional_call(base, (p, b), (x,)))(stacked, buffers))
for _ in range(3):
    gradients = grad(loss)(parameters, x, y)
    parameters = {name: p - 0.1 * gradients[name] for name, p in parameters.items()}
show(trained=parameters)
dual = torch.autograd.forward_ad
with dual.dual_level():
    made = dual.make_dual(x, torch.ones_like(x))
    print(dual.unpack_dual((made.clone() * made).sum()).tangent)
