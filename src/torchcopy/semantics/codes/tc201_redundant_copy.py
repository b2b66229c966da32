"""TC201: a copy that nobody writes to, of something that nobody writes to."""

from .code import Code

CODE = Code(
    code="TC201",
    name="redundant-copy",
    title="A copy of which neither side was written",
    story="""\
A copy is needed if somebody writes to it, or to its source, while the copy is in use. If nobody does, the
source would have given the same values, without the time and the memory.

PyTorch copies because it was told to: at the moment of the copy nobody can know whether a write will come. An
audit sees every write, and reports a copy after its end, when none has come to either side.

By hand: if `_version` of both sides is what it was, no in-place operation has written to them. That misses the
writes that are not counted (TC102).

A copy of a loss for a log is of this kind: each step makes a new loss, and nobody writes to the old one.
`loss.detach()` alone is enough.

The linter does not look for it: the source does not tell which writes will reach a tensor.""",
    wrong="""\
import torch

x = torch.randn(1000, 1000)
copied = x.clone()  # 4 MB, only to be read
mean = copied.mean()
assert x._version == 0
assert copied._version == 0  # neither side was written
assert torch.equal(mean, x.mean())
""",
    right="""\
import torch

x = torch.randn(1000, 1000)
shared = x.detach()  # out of the graph; no bytes are copied
mean = shared.mean()
assert shared.data_ptr() == x.data_ptr()
assert x._version == 0
""",
    fix="Read the tensor itself; `t.detach()` where only the graph is to be left behind.",
    linted=False,
)
