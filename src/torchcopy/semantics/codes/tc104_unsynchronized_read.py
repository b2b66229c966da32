"""TC104: a copy from the GPU is read before it has arrived."""

from .code import Code, InSource

_ON_EITHER_DEVICE = """\
import torch

on_gpu = torch.cuda.is_available()
n = 4096 if on_gpu else 4
x = torch.eye(n, device="cuda" if on_gpu else "cpu")
for _ in range(100):
    x = x @ x  # keeps a GPU busy; x stays what it is
host = x.to("cpu", non_blocking=True)  # a GPU goes on behind this line
"""

CODE = Code(
    code="TC104",
    name="unsynchronized-read",
    title="A `non_blocking` copy to the host is read too early",
    story="""\
`x.to("cpu", non_blocking=True)` on a CUDA tensor returns at once, while the GPU still computes `x` and then
writes the host's memory. Read before that, the result is whatever lay in that memory: values of another time,
or zeros. How busy the GPU is decides whether the program is right.

PyTorch says nothing: a tensor on the CPU belongs to no stream, so nothing waits when it is read.

To see it, put `torch.cuda.synchronize()` before the read: if the result changes, it was read too early.

Without a GPU, `.to("cpu", …)` returns the tensor itself, and there is nothing to wait for. The programs below
run on both, and say what they assert on which.""",
    wrong=_ON_EITHER_DEVICE
    + """\
total = host.sum().item()  # read at once
if on_gpu:
    assert not torch.cuda.current_stream().query()  # it had not arrived
else:
    assert host is x  # no copy, nothing to wait for
""",
    right=_ON_EITHER_DEVICE
    + """\
if on_gpu:
    torch.cuda.current_stream().synchronize()  # the bytes are there
assert host.sum().item() == n
""",
    fix="Leave out `non_blocking=True`, or wait before the first read: an event recorded after the copy, "
    "`torch.cuda.current_stream().synchronize()`.",
    threads=(
        "https://github.com/pytorch/pytorch/issues/86264",
        "https://github.com/pytorch/pytorch/issues/127612",
        "https://github.com/pytorch/pytorch/issues/140296",
        "https://github.com/sgl-project/sglang/pull/16493",
        "https://github.com/PrimeIntellect-ai/prime-rl/issues/3109",
    ),
    in_source=InSource(
        sees="""\
A read of a copy made with `non_blocking=True` to the host: `tolist`, `item`, a comparison, a print, what
NumPy computes. Between copy and read there is no `synchronize`, no event and no stream that is waited for,
neither there nor in a function of the project that is called.

It is the read that is reported. `numpy()` and `list()` alone read nothing; to go through an array reads it. A list
that a loop fills with such copies is followed to where it is joined: the last of them may be late.

Left alone: a tensor that is just a parameter of the function, or an entry of one, since it may lie on the host
already, unless the function synchronises further down. A wait under `if device.type == "cuda"` is one; so are an
index of booleans, `nonzero`, `unique` and the like in between, which need to know how much is left.""",
        before="""\
host = scores.to("cpu", non_blocking=True)
ranked = host.tolist()
""",
        after="""\
host = scores.to("cpu", non_blocking=True)
torch.cuda.synchronize()
ranked = host.tolist()
""",
    ),
)
