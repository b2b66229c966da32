"""TC110: a small view that keeps a large storage alive."""

from .code import Code, InSource

_ROWS = """\
import torch

rows = []
for _ in range(3):
    batch = torch.randn(4096, 256)  # 4 MB
    {keep}
held_bytes = sum(row.untyped_storage().nbytes() for row in rows)
assert sum(row.nbytes for row in rows) == 3 * 256 * 4
"""

CODE = Code(
    code="TC110",
    name="view-keeps-storage",
    title="A small view keeps a large storage alive",
    story="""\
`batch[0]`, a slice, `chunk` and `split` are views: they hold the whole storage of their base. As long as the
row is kept, so are the 4 MB of its batch, though nobody can reach the rest. `torch.save` writes the whole
storage as well: 4.2 MB for such a row, 2.6 kB for its clone. `copy.deepcopy` copies all of it.

PyTorch says nothing: views that share a storage are its way to be cheap, and the sharing survives saving on
purpose. How small the view is, and how long it will be kept, it does not ask.

To see it, compare `row.nbytes` with `row.untyped_storage().nbytes()`.

Indexing with a list, a tensor or a mask copies, and is no such view.""",
    wrong=_ROWS.format(keep="rows.append(batch[0])  # a view of 1 kB")
    + """\
assert held_bytes == 3 * 4096 * 256 * 4  # 12 MB for 3 kB
""",
    right=_ROWS.format(keep="rows.append(batch[0].clone())")
    + """\
assert held_bytes == 3 * 256 * 4
""",
    fix="Copy what is kept: `batch[0].clone()`, with `detach()` first where a graph hangs on it.",
    threads=(
        "https://github.com/pytorch/pytorch/issues/1995",
        "https://github.com/pytorch/pytorch/issues/40157",
        "https://github.com/pytorch/pytorch/issues/65604",
        "https://github.com/pytorch/pytorch/issues/182105",
    ),
    in_source=InSource(
        sees="""\
`torch.save` of a part of a tensor, and slices of a few rows, by a number that is written there, that are
appended to a list which outlives the tensor they are a part of.

Left alone: what copies, which is indexing by lists and masks, and `clone()`; a list that is joined into one
tensor; a slice that an attribute keeps. The fix is safe where the function writes nothing into the tensor: a
clone does not follow such writes.""",
        before="""\
table = torch.randn(100_000, 64)
torch.save(table[:10], "head.pt")
""",
        after="""\
table = torch.randn(100_000, 64)
torch.save(table[:10].clone(), "head.pt")
""",
        setup="import torch\n\n",
    ),
)
