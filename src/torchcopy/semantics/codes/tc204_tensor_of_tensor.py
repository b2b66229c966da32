"""TC204: `torch.tensor` of a tensor."""

from .code import Code, InSource

CODE = Code(
    code="TC204",
    name="tensor-of-tensor",
    title="`torch.tensor(t)` of what is a tensor already",
    story="""\
`torch.tensor` is made for numbers and lists. Given a tensor it copies it, out of the graph, after checks that
`t.detach().clone()` does without; on small tensors these show in the time.

It also does more than it says: the gradient stops there without a word, and a subclass of `Tensor` comes back
as a plain one.

PyTorch does warn: "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone()".
Python shows a warning once for each line, and a training log scrolls it away.""",
    wrong="""\
import warnings

import torch

t = torch.ones(3, requires_grad=True)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    copied = torch.tensor(t)
assert "sourceTensor.detach().clone()" in str(seen[0].message)
assert not copied.requires_grad  # gradients stop here
""",
    right="""\
import warnings

import torch

t = torch.ones(3, requires_grad=True)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    copied = t.detach().clone()
assert not seen
assert torch.equal(copied, t)
""",
    fix="`t.detach().clone()`; `t.clone()` where gradients are to flow back; `torch.as_tensor(x)` where `x` may be "
    "a tensor or not.",
    threads=(
        "https://github.com/pytorch/pytorch/issues/23495",
        "https://github.com/pytorch/pytorch/issues/42188",
    ),
    in_source=InSource(
        sees="""\
`torch.tensor(t)` and `x.new_tensor(t)` of what is known to be a tensor: by the function it comes from, or by an
annotation and a use that agree.

Left alone: numbers, lists, arrays, what is not known, and functions that ask `isinstance(t, torch.Tensor)`.
The fix is safe, but for files that have to do with subclasses of `Tensor`: there the copy becomes one too.""",
        before="""\
rates = torch.linspace(0, 1, 10)
wide = torch.tensor(rates, dtype=torch.float64)
""",
        after="""\
rates = torch.linspace(0, 1, 10)
wide = rates.detach().to(dtype=torch.float64, copy=True)
""",
        setup="import torch\n\n",
    ),
)
