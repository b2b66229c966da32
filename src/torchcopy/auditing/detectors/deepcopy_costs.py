"""What deep copies would have taken in other ways: measured at the end, on as many tensors of that size."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import torch

from ..._tensors import format_seconds
from ...copying.deep_copy import copy
from ...copying.in_place import copy_

_MOST_BYTES, _MOST_TENSORS = 64_000_000, 2_000
_ROUNDS = 3


def told_costs(tensors: int, size: int, seconds: float) -> str | None:
    """One sentence on one deep copy of so many tensors with so many bytes; None where that cannot be measured."""
    try:
        copied, written = _measured(tensors, size)
    except (MemoryError, RuntimeError):  # there is no memory for it
        return None
    return (
        f"each time its tensors took {format_seconds(seconds)}; measured here, `torchcopy.copy` of such tensors"
        f" takes {format_seconds(copied)}, and `History`, which writes into memory that is there,"
        f" {format_seconds(written)}"
    )


def _measured(tensors: int, size: int) -> tuple[float, float]:
    """Seconds of copies into new memory, and into memory that is there; of a part, where all would be too much."""
    each = min(max(1, size // tensors), _MOST_BYTES)
    count = max(1, min(tensors, _MOST_TENSORS, _MOST_BYTES // each))
    share = max(1.0, size / (each * count))
    with torch.inference_mode(False), torch.no_grad():
        sources = [torch.zeros(each, dtype=torch.uint8, device="cpu") for _ in range(count)]
        targets = copy(sources)
        return _shortest(lambda: copy(sources)) * share, _shortest(lambda: copy_(targets, sources)) * share


def _shortest(call: Callable[[], object]) -> float:
    times = []
    for _ in range(_ROUNDS):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return min(times)
