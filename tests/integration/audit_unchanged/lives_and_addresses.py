"""When tensors die, who shares memory with whom, version counters, reference counts, finalisers."""

import gc
import sys
import weakref

import torch

log = []
gc.disable()


def track(name, t):
    weakref.finalize(t, log.append, name)
    weakref.finalize(t.untyped_storage(), log.append, f"storage of {name}")
    return t


a = track("a", torch.zeros(1000))
b = track("b", a.clone())
view = a[10:20]
print(sys.getrefcount(a), sys.getrefcount(b), a._version, view._version, view._base is a)
del b
log.append("b was deleted")
a = None
log.append("a was deleted")
del view
log.append("the view was deleted")
for step in range(3):
    t = track(f"step {step}", torch.full((10,), float(step), requires_grad=True))
    loss = t.exp().sum()
    graph = weakref.ref(loss)
    loss.backward()
    loss = None
    print(graph() is None, sys.getrefcount(t), sys.getrefcount(t.grad), t.grad._version)
c = torch.ones(4)
d = c.numpy()
e = torch.from_numpy(d)
c.add_(1)
e[0] = 9
print(c.data_ptr() == e.data_ptr(), d, c._version, e._version, c.data._version, c.detach()._version)
print(torch.empty(3, 4).t().is_contiguous(), c.view(2, 2).contiguous().data_ptr() == c.data_ptr())
state = torch.nn.Linear(2, 2).state_dict()
print(sorted(state), [t.requires_grad for t in state.values()], state._metadata)
copies = [c.clone() for _ in range(3)]
ref = weakref.ref(copies[1])
copies.clear()
print(ref() is None)
namespace = {}
exec("import torch\nheld = torch.as_tensor([1.0])\nstate = torch.nn.Linear(2, 2).state_dict()", namespace)
ref = weakref.ref(namespace["held"])
del namespace
gc.collect()
print("what exec has made:", ref() is None)
print(*log, sep="\n")
gc.enable()
