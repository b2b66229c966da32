"""TC301: `.data`."""

from .code import Code, InSource

_LOSS = """\
import torch

w = torch.ones(2, requires_grad=True)
loss = (w**2).sum()  # saves w
"""

CODE = Code(
    code="TC301",
    name="data-attribute",
    title="`.data`, where `detach()` or `no_grad()` would do",
    story="""\
`t.data` and `t.detach()` give the same values on the same memory, out of the graph. The difference is the
version counter: `detach()` shares that of `t`, and `.data` has its own. A write through `.data` is one that
autograd never hears of, and where it hits a saved value the gradient is wrong in silence (TC102).

A parameter is written with `with torch.no_grad(): w.add_(1)`: it does the same and is counted. PyTorch then
raises where the write was a mistake.

PyTorch allows `.data` because old programs use it. Many uses are harmless, so this code is off by default:
`--select TC301` looks for it.""",
    wrong=_LOSS
    + """\
w.data.add_(1)
assert w._version == 0  # not counted
loss.backward()
assert w.grad.tolist() == [4.0, 4.0]  # wrong: 2 is right
""",
    right=_LOSS
    + """\
with torch.no_grad():
    w.add_(1)
assert w._version == 1
try:
    loss.backward()
except RuntimeError as error:
    assert "modified by an inplace operation" in str(error)
assert w.grad is None  # no gradient rather than a wrong one
""",
    fix="Read with `t.detach()`; write under `torch.no_grad()`.",
    on=False,
    threads=(
        "https://github.com/pytorch/pytorch/issues/30987",
        "https://github.com/pytorch/pytorch/issues/6990",
    ),
    in_source=InSource(
        sees="""\
`.data` of what is known to be a tensor: a read, a write in place, and other data for a parameter.

Left alone: `.data` of anything else, as graphs, responses and lists have one. The fix is safe for a read that
cannot be written through; for others, autograd hears of writes that it did not hear of before.""",
        before="""\
p.data.mul_(0.9)
print(p.data.norm())
""",
        after="""\
with torch.no_grad():
    p.mul_(0.9)
print(p.detach().norm())
""",
        setup="import torch\n\np = torch.nn.Parameter(torch.ones(3))\n",
    ),
)
