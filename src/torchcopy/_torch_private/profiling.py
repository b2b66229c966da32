"""What PyTorch's profiler saw of the CPU allocator."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import torch


def profiler_is_running() -> bool:
    """Whether the program is being profiled."""
    return bool(torch.autograd.profiler._is_profiler_enabled)


@functools.cache
def wake_profiler() -> None:
    """Starts and stops the profiler once: its library complains when it first wakes on another thread."""
    # Without this, the library writes a line to stderr at each start and stop.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    if not profiler_is_running():
        with torch.autograd.profiler.profile(use_kineto=True, profile_memory=True):
            pass


def profiled_allocations(call: Callable[[], object]) -> list[int] | None:
    """Runs `call` and lists what PyTorch's CPU allocator gave (positive) and took back (negative), in bytes.

    None where the profiler cannot be had, for example because one is running already; `call` has run then too.
    """
    if profiler_is_running():  # a second session would end the user's
        call()
        return None
    wake_profiler()
    with torch.autograd.profiler.profile(use_kineto=True, profile_memory=True) as profiler:
        call()
    events = profiler.kineto_results.events()
    memory = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    return [size for _, size in sorted(memory, key=lambda event: event[0])]
