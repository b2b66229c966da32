"""The five-line programs that show what is wrong with a claim; each runs as it stands."""

from __future__ import annotations

PRINT_WARNING = """\
import torch, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.tensor(torch.ones(1))
print(caught[0].message)"""

CLONE_ADDS_A_NODE = """\
import torch
y = torch.ones(1, requires_grad=True) * 2
z = y.clone()
print("one new node:", z.grad_fn.name())
print("and behind it y's own:", z.grad_fn.next_functions[0][0] is y.grad_fn)"""

SAME_BYTES = """\
import torch
x = torch.ones(1000, 1000)
for t in (x.clone(), torch.empty_like(x).copy_(x)):
    print(t.untyped_storage().nbytes(), "bytes")"""

LOG_DIRECTLY = """\
import torch
w = torch.tensor([2.0], requires_grad=True)
loss = (w * 3 - 1).square().sum()
print("logged:", loss.item())
loss.backward(), print("gradient:", w.grad)"""

NON_LEAF = """\
import copy, torch
leaf = torch.ones(1, requires_grad=True)
for t in (leaf, leaf * 2):
    try: print(copy.deepcopy(t))
    except RuntimeError as e: print("RuntimeError:", str(e)[:54], "…")"""

NO_GRAD_KEPT = """\
import copy, torch
model = torch.nn.Linear(1, 1, bias=False)
model(torch.ones(1)).backward()
print("original:", model.weight.grad)
print("copy:    ", copy.deepcopy(model).weight.grad)"""

HOOK = """\
import copy, torch
model, seen = torch.nn.Linear(1, 1), []
model.register_forward_hook(lambda *_: seen.append(model))
copy.deepcopy(model)(torch.ones(1))
print("the copy's hook sees the original:", seen[0] is model)"""

TIES = """\
import copy, torch
flat = torch.zeros(4)
pair = [torch.nn.Parameter(flat[:2]), torch.nn.Parameter(flat)]
for a, b in (pair, copy.deepcopy(pair)):
    print("same memory:", a.data_ptr() == b.data_ptr())"""

WRITE = """\
import torch
t = torch.tensor([1, 2, 3])
t[0] = 10
print(t)"""

STEPS = """\
import copy, torch
for n in (10, 10_000):
    memo = {}
    copy.deepcopy(torch.zeros(n), memo)
    print(n, "elements:", len(memo), "objects visited")"""

BYTES = """\
import copy, torch
for t in (torch.ones(1000), torch.ones(8000)[:1000]):
    for copied in (t.clone(), copy.deepcopy(t)):
        print(copied.untyped_storage().nbytes(), "bytes")"""

CLONE_BYTES = """\
import torch
a = torch.ones(1000)
b = a.clone()
print(b.nbytes, "bytes of its own:", a.data_ptr() != b.data_ptr())"""

WRITE_CLONE = """\
import torch
a = torch.tensor([1, 2, 3, 4, 5])
b = a.clone()
b[0] = 10
print(a, "same memory:", a.data_ptr() == b.data_ptr())"""

ATTRIBUTE = """\
import torch
t = torch.ones(1)
t.names_of_rows = ["first"]
print(hasattr(t, "names_of_rows"), hasattr(t.clone(), "names_of_rows"))"""

NO_MODULE_CLONE = """\
import torch
model = torch.nn.Linear(1, 1)
for thing in (torch.ones(1), model, model.state_dict(), [torch.ones(1)]):
    print(type(thing).__name__, hasattr(thing, "clone"))"""

DETACH_SHARES = """\
import torch
t = torch.zeros(3, requires_grad=True)
u = t.detach()
u[0] = 10
print(t)"""

NUMPY_WRITE = """\
import torch
x = torch.tensor([1.0], requires_grad=True)
z = x * x
x.detach().numpy()[0] = 0.0
z.backward(), print("x.grad:", x.grad, "where 2 is right")"""

SUBCLASS_LOST = """\
import torch, warnings
class Mine(torch.Tensor): pass
t, _ = torch.ones(2).as_subclass(Mine), warnings.simplefilter("ignore")
print("torch.tensor(t):   ", type(torch.tensor(t)).__name__)
print("t.clone().detach():", type(t.clone().detach()).__name__)"""

NOT_CALLABLE = """\
import torch
try:
    torch.ones(1).clone().detach().requires_grad(True)
except TypeError as error:
    print("TypeError:", error)"""

NO_FUNCTION = """\
import torch
print("torch.new_tensor:       ", hasattr(torch, "new_tensor"))
print("torch.Tensor.new_tensor:", hasattr(torch.Tensor, "new_tensor"))"""

NODE_NAME = """\
import torch
a = torch.tensor(1.0, requires_grad=True, dtype=torch.float64)
print(a.clone())"""

TARGET_GRAD = """\
import torch
target = torch.zeros(3)
target.copy_(torch.tensor([7.0, 8.0, 9.0], requires_grad=True))
print(target.requires_grad, target.is_leaf)"""

LEAF_WRITE = """\
import torch
try:
    torch.ones(3, requires_grad=True).add_(1)
except RuntimeError as error:
    print("RuntimeError:", error)"""

USED_CLONE = """\
import torch
c = torch.ones(3, requires_grad=True).clone()
y = (c**2).sum() + c.add_(1).sum()
try: y.backward()
except RuntimeError as e: print("RuntimeError:", str(e)[:102], "…")"""

ATTRIBUTES = """\
import copy
from torch import nn, ones
for t in (ones(1).requires_grad_(), nn.Parameter(ones(1))):
    t.tag, t.grad = "mine", ones(1)
    print(type(t).__name__, vars(copy.deepcopy(t)), copy.deepcopy(t).grad)"""


MODEL_TIMES = """\
import copy, torch
from torch.utils.benchmark import Timer
m = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4)))
for c in ("copy.deepcopy(m)", "[t.clone() for t in m.parameters()]"):
    print(f"{Timer(c, globals=vars()).blocked_autorange().median:.2e} s", c)"""


RATIO_BY_SIZE = """\
import torch, warnings, torch.utils.benchmark as b
warnings.simplefilter("ignore")
s = lambda c: b.Timer(c, globals=globals()).timeit(999).median
for t in (torch.ones(2**10), torch.ones(2**20)):
    print(len(t), s("torch.tensor(t)") / s("t.detach().clone()"))"""


def timing(*expressions: str, numel: str, requires_grad: bool = False) -> str:
    """Five lines that print the time of each expression on a tensor `t`."""
    source = f"torch.ones({numel}, requires_grad=True) * 1" if requires_grad else f"torch.ones({numel})"
    modules, made = ["torch"], f"t = {source}"
    if any("copy." in expression for expression in expressions):
        modules.insert(0, "copy")
    if any("tensor(t)" in expression for expression in expressions):
        modules.append("warnings")
        made = f't, _ = {source}, warnings.simplefilter("ignore")'
    quoted = ", ".join(f'"{expression}"' for expression in expressions)
    return f"""\
import {", ".join(modules)}
from torch.utils.benchmark import Timer
{made}
for c in ({quoted}):
    print(f"{{Timer(c, globals=vars()).blocked_autorange().median:.2e}} s", c)"""
