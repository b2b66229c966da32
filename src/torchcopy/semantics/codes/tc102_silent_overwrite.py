"""TC102: a value that backward needs is overwritten, and autograd does not notice."""

from .code import Code, InSource

_FORWARD = """\
import torch

w = torch.tensor([3.0], requires_grad=True)
h = w * 2
loss = (h**2).sum()  # saves h: the gradient is 2 * h * 2
"""

CODE = Code(
    code="TC102",
    name="silent-overwrite",
    title="A saved value is overwritten unseen: wrong gradients",
    story="""\
Backward uses values of the forward pass: `h**2` saves `h`. If `h` is overwritten before `backward()` runs, the
gradient is computed from the new values, and is wrong.

Against this, each tensor has a version counter: an in-place operation raises it, and backward compares. Some
writes do not raise it. `h.data` has a counter of its own. A NumPy array on the same memory has none. The
kernels of fused optimizers (`fused=True`) write the parameters without raising it. Backward then finds the
counter unmoved, and goes on.

Only values that were saved matter: `h.sum()` saves none, and after it the same write leaves the gradient right.

To see it, write through `h.detach()` in place of `h.data`. It shares the counter of `h`, and backward raises a
`RuntimeError` (TC103).""",
    wrong=_FORWARD
    + """\
h.data.mul_(10)  # not counted
loss.backward()
assert w.grad.item() == 240  # ten times too much
""",
    right=_FORWARD
    + """\
scaled = h.detach() * 10  # a tensor of its own
loss.backward()
assert w.grad.item() == 24
assert scaled.item() == 60
""",
    fix="Write into a tensor of its own: `h.detach() * 10`, or `h.detach().clone()` and then in place.",
    threads=(
        "https://github.com/pytorch/pytorch/issues/30987",
        "https://github.com/pytorch/pytorch/issues/6990",
        "https://github.com/pytorch/pytorch/issues/131403",
    ),
    in_source=InSource(
        sees="""\
A write through `.data` to a tensor that is known to come out of an operation in a graph, where backward needs
the value that is overwritten.

Left alone: parameters and other leaves (TC301), `.data` of what is no tensor, and straight-through estimators,
which write only values that backward does not need.""",
        before="""\
h = torch.sigmoid(layer(x))
h.data.clamp_(0.1, 0.9)
h.sum().backward()
""",
        after="""\
h = torch.sigmoid(layer(x))
h = h.clamp(0.1, 0.9)
h.sum().backward()
""",
        setup="import torch\n\nlayer, x = torch.nn.Linear(2, 2), torch.ones(1, 2)\n",
    ),
)
