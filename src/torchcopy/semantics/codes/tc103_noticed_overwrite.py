"""TC103: a value that backward needs is overwritten, and autograd raises."""

from .code import Code

CODE = Code(
    code="TC103",
    name="noticed-overwrite",
    title="A saved value is overwritten, and backward raises",
    story="""\
`exp` saves its result, because its gradient is that result. An in-place operation on it raises the version
counter, and `backward()` finds that the counter has moved: a `RuntimeError`, "one of the variables needed for
gradient computation has been modified by an inplace operation".

Here PyTorch does speak, but names no line: only the shape of the tensor, and the operation that made it.
`torch.autograd.set_detect_anomaly(True)` adds the line of the forward pass whose gradient failed. The line that
overwrote the value may be "in there or anywhere later", as its message says.

An audit lets the same error happen at the same moment, and names both lines. The linter does not look for it:
the program says so itself as soon as it runs.""",
    wrong="""\
import torch

w = torch.tensor([3.0], requires_grad=True)
h = w.exp()  # saves its result
h.add_(1)  # overwrites it
try:
    h.sum().backward()
except RuntimeError as error:
    assert "modified by an inplace operation" in str(error)
assert w.grad is None  # no gradient came
""",
    right="""\
import torch

w = torch.tensor([3.0], requires_grad=True)
h = w.exp()
h = h + 1  # a new tensor; what `exp` saved stays as it is
h.sum().backward()
assert w.grad is not None
assert torch.equal(w.grad, w.detach().exp())
""",
    fix="Write out of place (`h = h + 1`), or into a copy: `h.clone().add_(1)`.",
    linted=False,
    threads=(
        "https://github.com/pytorch/pytorch/issues/96265",
        "https://github.com/FelixOpolka/STGCN-PyTorch/issues/4",
    ),
)
