"""TC203: `clone().detach()` in a graph."""

from .code import Code, InSource

CODE = Code(
    code="TC203",
    name="clone-then-detach",
    title="`clone().detach()` records a node for nothing",
    story="""\
Both orders give the same copy: the same values, memory of its own, no graph. But `t.clone()` on a tensor that
requires grad records a `CloneBackward0` for a backward pass that `detach()` then rules out.
`t.detach().clone()` records nothing.

The waste is that of one node, whatever the size of `t`. Where `t` does not require grad there is none at all.

PyTorch says nothing: nothing is wrong with the result.""",
    wrong="""\
import torch

t = torch.ones(3, requires_grad=True)
assert t.clone().grad_fn.name() == "CloneBackward0"  # is recorded …
kept = t.clone().detach()
assert kept.grad_fn is None  # … and thrown away
assert kept.data_ptr() != t.data_ptr()
""",
    right="""\
import torch

t = torch.ones(3, requires_grad=True)
assert t.detach().grad_fn is None  # nothing to record from here on
kept = t.detach().clone()
assert kept.grad_fn is None
assert kept.data_ptr() != t.data_ptr()
""",
    fix="Detach first: `t.detach().clone()`.",
    in_source=InSource(
        sees="""\
The two calls in that order.

Left alone: under `no_grad`, and where the tensor hangs on no graph: buffers, gradients, integers.
The fix is safe, but for names such as `batch` or `graph`: what other libraries call so may have a `detach` that
changes it.""",
        before="""\
kept = weight.clone().detach()
""",
        after="""\
kept = weight.detach().clone()
""",
    ),
)
