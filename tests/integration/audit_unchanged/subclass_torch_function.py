"""A tensor subclass with `__torch_function__`: what it sees, in order."""

import torch
from audit_shown import show

seen = []


class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        seen.append((getattr(function, "__name__", str(function)), [t.__name__ for t in types]))
        return super().__torch_function__(function, types, args, kwargs or {})


class Metadata:
    """No tensor at all, but torch asks it."""

    def __init__(self, t):
        self.t = t

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        print("asked", function.__name__)
        plain = [a.t if isinstance(a, cls) else a for a in args]
        return cls(function(*plain, **(kwargs or {})))


torch.manual_seed(0)
x = torch.randn(3, 4).as_subclass(Logged).requires_grad_()
y = torch.nn.functional.cross_entropy((x * 2 + torch.ones(4)).relu(), torch.tensor([0, 1, 2]))
y.backward()
x.data.add_(1)
z = x.detach().clone().double().cpu()
z[0] = 0
parts = [*torch.split(z, 1), torch.stack([z, z]), torch.nn.functional.linear(x, torch.ones(2, 4))]
print(type(y), type(z), type(x.grad), [type(p).__name__ for p in parts])
print(torch.add(Metadata(torch.ones(2)), 1).t, torch.cat([Metadata(torch.ones(1)).t, x[0]]).shape)
print(len(seen))
for line in seen:
    print(*line)
show(x=x.as_subclass(torch.Tensor), y=y.as_subclass(torch.Tensor), z=z.as_subclass(torch.Tensor))
