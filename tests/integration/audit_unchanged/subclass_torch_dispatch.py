"""Tensor subclasses with `__torch_dispatch__`: a wrapper, and one that counts; training with both."""

import torch
from audit_shown import show
from torch.utils._pytree import tree_map

ops = []


class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"Wrapped({self.inner})"

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        ops.append(str(op))
        strip = lambda t: t.inner if isinstance(t, cls) else t  # noqa: E731
        out = op(*tree_map(strip, args), **tree_map(strip, kwargs or {}))
        if op._schema.is_mutable:
            return args[0]
        return tree_map(lambda t: cls(t) if isinstance(t, torch.Tensor) else t, out)


torch.manual_seed(0)
weight = torch.nn.Parameter(Wrapped(torch.randn(4, 4)))
optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
for _ in range(3):
    x = Wrapped(torch.randn(2, 4))
    loss = (x @ weight).relu().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
kept = weight.detach().clone()
with torch.no_grad():
    weight.mul_(2)
print(kept, type(kept).__name__, len(ops))
print(*ops, sep="\n")
show(weight=weight.data.inner, kept=kept.inner)
