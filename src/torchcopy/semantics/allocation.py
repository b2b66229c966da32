"""How many bytes a call allocates, as the allocators themselves report it."""

from __future__ import annotations

import dataclasses
import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch

from .. import _torch_private

R = TypeVar("R")


@dataclasses.dataclass(frozen=True)
class Allocation:
    """What one call allocated.

    Attributes:
        allocated_bytes: sum of all allocations, temporary ones included.
        peak_bytes: the most that was held at one moment, above what was held before the call.
        kept_bytes: what was still held when the call had returned.
    """

    allocated_bytes: int
    peak_bytes: int
    kept_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)


def measure_allocation(call: Callable[[], R], device: torch.device) -> tuple[R, Allocation | None]:
    """Runs `call` once and counts the bytes it allocates on `device`.

    On the CPU these are the bytes that PyTorch's allocator and numpy's report; on CUDA, the caching allocator's.
    Synchronises the device. `call` decides what is shared or changed; nothing else is.

    Returns:
        What the call returned, and the count; None where the device reports no allocations.
    """
    if device.type == "cuda":
        return _on_cuda(call, device)
    if device.type == "cpu":
        return _on_cpu(call)
    return call(), None


def _on_cpu(call: Callable[[], R]) -> tuple[R, Allocation | None]:
    result: list[R] = []
    gc_was_on = gc.isenabled()
    gc.disable()  # a collection would free somebody else's tensors into the count
    try:
        with _numpy_bytes() as from_numpy:
            sizes = _torch_private.profiled_allocations(lambda: result.append(call()))
    finally:
        if gc_was_on:
            gc.enable()
    if sizes is None:
        return result[0], None
    held = peak = allocated = 0
    for size in sizes:
        held += size
        peak = max(peak, held)
        allocated += max(size, 0)
    kept = sum(from_numpy)
    return result[0], Allocation(allocated + kept, peak + kept, held + kept)


@contextmanager
def _numpy_bytes() -> Iterator[list[int]]:
    """Fills the list with the sizes of numpy's own buffers that the block allocates and keeps.

    Where the program traces its memory by itself, its trace is left alone and nothing is counted.
    """
    sizes: list[int] = []
    if tracemalloc.is_tracing():
        yield sizes
        return
    tracemalloc.start()
    try:
        yield sizes
        only_numpy = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
        sizes += [trace.size for trace in tracemalloc.take_snapshot().filter_traces([only_numpy]).traces]
    finally:
        tracemalloc.stop()


def _on_cuda(call: Callable[[], R], device: torch.device) -> tuple[R, Allocation]:
    def stat(name: str) -> int:
        return int(torch.cuda.memory_stats(device)[f"allocated_bytes.all.{name}"])

    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    held, allocated = stat("current"), stat("allocated")
    result = call()
    torch.cuda.synchronize(device)
    return result, Allocation(stat("allocated") - allocated, stat("peak") - held, stat("current") - held)
