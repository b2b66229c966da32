"""TC205: the same conversion or move of the same tensor, again and again."""

from .code import Code

CODE = Code(
    code="TC205",
    name="repeated-conversion",
    title="The same tensor is converted or moved again and again",
    story="""\
`mask.float()`, `table.to(device)` and `weight.contiguous()` inside a loop or a `forward` make a new tensor each
time, though what they are made of has not changed. The result of the first time would have done.

PyTorch keeps no results: it cannot know that the source stays as it is.

To see it, print `data_ptr()` of the result at two steps while the first is kept: two addresses for the same
values.

The linter does not look for it: whether a tensor has changed in between is known when the program runs.""",
    wrong="""\
import torch

mask = torch.ones(1000, dtype=torch.bool)
results = []
for _ in range(3):
    results.append(mask.float())  # the same 4,000 bytes each time
assert len({r.data_ptr() for r in results}) == 3
assert torch.equal(results[0], results[2])
assert mask._version == 0  # it has not changed
""",
    right="""\
import torch

mask = torch.ones(1000, dtype=torch.bool)
weights = mask.float()  # once
results = []
for _ in range(3):
    results.append(weights)
assert len({r.data_ptr() for r in results}) == 1
assert torch.equal(results[2], mask.float())
""",
    fix="Convert once, before the loop; in a module keep it as a buffer: `self.register_buffer(…)`.",
    linted=False,
    threads=("https://github.com/pytorch/pytorch/issues/150368",),
)
