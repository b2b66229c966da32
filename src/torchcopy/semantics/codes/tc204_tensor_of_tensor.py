"""TC204: `torch.tensor` of a tensor."""

from .code import Code

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
)
