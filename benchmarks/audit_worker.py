"""One measurement of the audit benchmark, in a process of its own: `audit_worker.py steps|memory WORKLOAD MODE N`.

The last line that it prints is the answer, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from audit_workloads import training_step

import torchcopy as tc

_SAMPLES = 100  # of resident memory


def _profiler() -> Any:
    return torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True
    )


# How each mode begins, and how its result is asked for.
MODES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "plain": (contextlib.nullcontext, lambda _: None),
    "audited": (tc.audit, lambda audit: audit.report),
    "profiler": (_profiler, lambda profile: profile.key_averages(group_by_stack_n=5)),
}


def seconds_a_step(workload: str, mode: str, steps: int) -> dict[str, float]:
    """The median of some steps, and the time of all from the beginning to having the result, a step."""
    step = training_step(workload)
    for _ in range(3):
        step()
    begins, result_of = MODES[mode]
    times = []
    began = time.perf_counter()
    with begins() as running:
        for _ in range(steps):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
    result_of(running)
    whole = time.perf_counter() - began
    return {"step": statistics.median(times), "whole": whole / steps}


def resident_growth(workload: str, mode: str, steps: int) -> dict[str, int]:
    """By how many bytes the process has grown at most during some steps, its result included."""
    step = training_step(workload)
    for _ in range(100):
        step()
    begins, result_of = MODES[mode]
    before = highest = _resident_bytes()
    with begins() as running:
        for number in range(1, steps + 1):
            step()
            if number % max(1, steps // _SAMPLES) == 0:
                highest = max(highest, _resident_bytes())
    result = result_of(running)
    highest = max(highest, _resident_bytes())
    del result
    return {"growth_bytes": highest - before}


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    what, workload, mode, count = sys.argv[1:]
    measure = {"steps": seconds_a_step, "memory": resident_growth}[what]
    print(json.dumps(measure(workload, mode, int(count))), flush=True)
