"""The limit of the memory: a warm `copy_`, into memory that has been written before.

No way to copy can beat it by much, for it does nothing but copy: nothing is allocated, no page is touched for
the first time. What a method takes longer than this is the price of its memory, not of the copying.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def tensor_limit(source: Tensor) -> Callable[[], object]:
    """A warm `copy_` from `source` into a buffer of the same kind, ready to be timed.

    The buffer is this function's own and lives as long as what it returns. The call records no graph, leaves
    `source` as it is and does not synchronise.
    """
    values = source.detach()
    buffer = torch.empty_like(values)
    buffer.copy_(values)
    return lambda: buffer.copy_(values)  # neither requires grad: no `no_grad`, which small sizes would feel


def list_limit(tensors: Sequence[Tensor]) -> Callable[[], object]:
    """A warm `copy_` of as many bytes as `tensors` hold, in one piece, ready to be timed.

    One piece is what the memory can do at its best: what a copy of many small tensors falls short of it is the
    price of their number. Both buffers are this function's own; `tensors` are neither read nor changed. The call
    records no graph and does not synchronise.
    """
    count = sum(t.numel() * t.element_size() for t in tensors)
    source = torch.ones(count, dtype=torch.uint8, device=tensors[0].device)
    return tensor_limit(source)
