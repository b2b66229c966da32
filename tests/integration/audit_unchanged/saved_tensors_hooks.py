"""Hooks of the program's own on what is saved for backward, `save_on_cpu`, and functions that forbid such hooks."""

import torch
from audit_shown import show
from torch.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks

torch.manual_seed(0)
log = []


def pack(t):
    log.append(("pack", tuple(t.shape)))
    return t.to(torch.bfloat16) if t.is_floating_point() else t


def unpack(t):
    log.append(("unpack", tuple(t.shape)))
    return t.float() if t.is_floating_point() else t


model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
x = torch.randn(3, 4, requires_grad=True)
with saved_tensors_hooks(pack, unpack):
    loss = model(x).exp().sum()
loss.backward()
show(compressed=x.grad)
with save_on_cpu():
    model(x).exp().sum().backward()
show(on_cpu=x.grad)
y = (x * x).sum()
with disable_saved_tensors_hooks("not here"):
    z = x.exp()
    try:
        with saved_tensors_hooks(pack, unpack):
            pass
    except RuntimeError as error:
        print(error)
z.sum().backward()
node = (x * 2).exp().grad_fn
node._raw_saved_result.register_hooks(lambda t: t * 1, lambda t: t * 3)
node(torch.ones(3, 4))
print(log)
show(x=x.grad)
