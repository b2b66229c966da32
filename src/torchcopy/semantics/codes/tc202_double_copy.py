"""TC202: a copy of a copy."""

from .code import Code, InSource

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
    in_source=InSource(
        sees="""\
A clone next to a move: `t.clone().cpu()`, `t.cpu().clone()`, `t.clone().to(…)`, `t.half().clone()`; an array
copied once more, `t.cpu().numpy().copy()`; `t.contiguous().clone()`; `load_state_dict` of a module that is given
a deep copy; `copy_` of a clone; and a clone that an operator or `tolist` reads and throws away.

Left alone: a clone of what is on the host already, which is the only copy; moves with `non_blocking=True`; a
deep copy for an optimizer, whose `load_state_dict` keeps tensors; parts of one tensor, which may overlap; what
a gradient may need. Copies in two statements, the second of a name that the first was given, are found by the
audit alone. The fix is safe where the value is known to be a tensor, and for a load
where the object is known to be a module that loads as all do; layout and dtype stay, and the result has
memory of its own.""",
        before="""\
kept = t.detach().cpu().clone()
""",
        after="""\
kept = t.detach().to("cpu", copy=True)
""",
        setup="import torch\n\n\ndef keep(t: torch.Tensor):\n",
    ),
)
