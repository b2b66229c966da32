"""TC207: a value is read on the host in each step of a hot loop."""

from .code import Code

_COUNTED = """\
import torch

class Reads(torch.overrides.TorchFunctionMode):
    count = 0
    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.Tensor.item
        return func(*args, **(kwargs or {}))

with Reads() as reads:
    total = 0.0
    for step in range(100):
"""

CODE = Code(
    code="TC207",
    name="host-sync-in-loop",
    title="A hot loop reads values on the host",
    story="""\
`item()`, `tolist()`, `cpu()`, `float(t)` and `if t:` need the number now. On a GPU the host then waits until
all queued work is done, and the GPU waits in turn until the host has queued more. One such line a step is
enough to lose what they would have done at the same time.

PyTorch says nothing by itself: waiting is correct. On CUDA, `torch.cuda.set_sync_debug_mode("warn")` makes it
say so.

On a CPU nothing waits, and only the call itself is wasted. The programs below count the reads.

The linter does not look for it: which loops are hot is known when the program runs.""",
    wrong=_COUNTED
    + """\
        total += torch.ones(3).mean().item()  # the host needs it now
assert reads.count == 100
""",
    right=_COUNTED
    + """\
        total += torch.ones(3).mean()  # stays on the device
    mean = total.item() / 100
assert reads.count == 1
""",
    fix="Sum on the device (`total += loss.detach()`) and read it once, or every so many steps.",
    linted=False,
    threads=(
        "https://github.com/meta-pytorch/torchtune/pull/522",
        "https://github.com/dmlc/dgl/issues/5302",
    ),
)
