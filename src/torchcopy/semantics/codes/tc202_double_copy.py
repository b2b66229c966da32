"""TC202: a copy of a copy."""

from .code import Code

CODE = Code(
    code="TC202",
    name="double-copy",
    title="A copy of a copy",
    story="""\
`t.contiguous().clone()` copies twice where `t` is not contiguous: the first copy is read once and thrown away.
`t.clone().to(device)`, `t.cpu().clone()` on a GPU, `t.float().clone()` and
`load_state_dict(copy.deepcopy(state))` are the same: two allocations and twice the bytes.

The second copy is often there for safety, because `contiguous`, `to`, `cpu` and `float` copy only when they
have to, and return the tensor itself otherwise. What copies exactly once, in both cases, is one call that is
told to copy.

PyTorch says nothing: each of the two calls does what it was asked for.

To see it, keep the one in between: three different addresses are two copies.""",
    wrong="""\
import torch

t = torch.arange(6.0).reshape(2, 3).T  # not contiguous
between = t.contiguous()  # the first copy
copied = between.clone()  # the second: t.contiguous().clone()
assert between.data_ptr() != t.data_ptr()
assert copied.data_ptr() != between.data_ptr()
""",
    right="""\
import torch

t = torch.arange(6.0).reshape(2, 3).T
copied = t.clone(memory_format=torch.contiguous_format)  # one copy
assert copied.is_contiguous()
assert copied.data_ptr() != t.data_ptr()
moved = copied.to("cpu", torch.float32, copy=True)  # one, though it fits
assert moved.data_ptr() != copied.data_ptr()
""",
    fix="Say all of it in one call: `t.to(device, copy=True)`, `t.to(dtype, copy=True)`, "
    "`t.clone(memory_format=torch.contiguous_format)`.",
    threads=(
        "https://github.com/pytorch/pytorch/issues/79474",
        "https://github.com/pytorch/pytorch/issues/150368",
        "https://github.com/pytorch/pytorch/issues/108408",
    ),
)
