"""TC106: a tensor and a NumPy array on the same memory."""

from .code import Code, InSource

_RECORD = """\
import torch

counts = torch.zeros(2)
recorded = []
for _ in range(3):
    counts += 1
    recorded.append({kept})
"""

CODE = Code(
    code="TC106",
    name="shared-with-numpy",
    title="A tensor and a NumPy array share memory, one is written",
    story="""\
`t.numpy()`, `torch.from_numpy(a)` and `torch.as_tensor(a)` copy nothing: tensor and array are two names of one
memory. A later in-place write to either changes both. What was recorded turns into the newest values; a buffer
that is filled anew changes the batch that was made of it.

`t.cpu().numpy()` shares too where `t` is on the CPU; on a GPU, `.cpu()` copies.

PyTorch says nothing, because sharing is what these functions promise. A write by NumPy does not even raise the
version counter of the tensor, so autograd misses it as well (TC102).

To see it: `a.ctypes.data == t.data_ptr()` is true where they begin at the same address.""",
    wrong=_RECORD.format(kept="counts.numpy()")
    + """\
assert recorded[0].tolist() == [3.0, 3.0]  # not 1.0: all are the last
assert recorded[0].ctypes.data == counts.data_ptr()
""",
    right=_RECORD.format(kept="counts.clone().numpy()")
    + """\
assert recorded[0].tolist() == [1.0, 1.0]
assert recorded[2].tolist() == [3.0, 3.0]
""",
    fix="Copy on the way: `t.clone().numpy()` (`t.detach().clone()` in a graph), `torch.tensor(a)`.",
    threads=(
        "https://github.com/pytorch/pytorch/issues/97586",
        "https://github.com/mrdbourke/pytorch-deep-learning/issues/83",
    ),
    in_source=InSource(
        sees="""\
`torch.from_numpy(a)` or `t.numpy()` where one of the two is written afterwards, and the other one used.

Left alone: a pair of which only one is used on, a buffer that is made empty and filled through its other name,
an array with which nothing is done but to write a tensor through it, and memory that was copied in between. Of
arrays in a list, those are seen that the loop which appends them writes by name. Arrays that are kept in a
dictionary are found by the audit alone.""",
        before="""\
pixels = np.load("image.npy")
image = torch.from_numpy(pixels)
image.sub_(image.mean())
print(pixels.max())
""",
        after="""\
pixels = np.load("image.npy")
image = torch.tensor(pixels)
image.sub_(image.mean())
print(pixels.max())
""",
        setup="import numpy as np\nimport torch\n\n",
    ),
)
