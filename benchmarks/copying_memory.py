"""The memory that one copy takes, as PyTorch's allocator and as the system count it, in a process of its own."""

from __future__ import annotations

import copy
import gc
from pathlib import Path
from typing import Any

import torch
from copying_methods import METHODS, Method
from copying_worker import build, releaser
from copying_workloads import Subject

import torchcopy as tc
from torchcopy.semantics.allocation import measure_allocation

CASES = {
    "W1": ("tc.copy", "tc.fork", "deepcopy"),
    "W2": ("tc.copy", "tc.fork"),
    "W3": ("tc.copy",),
    "W4": ("tc.copy",),
    "W5": ("tc.copy_state",),
    "W6": ("tc.copy",),
    "tiny": ("tc.copy", "tc.fork"),
    "views": ("tc.copy_state", "deepcopy_state"),
}
"""Where the memory is counted, by workload."""


def memory(workload: str, method_id: str, device_name: str) -> dict[str, Any]:
    """What one call allocates, and, of a fork, what a write to its largest tensor adds."""
    device, method = torch.device(device_name), METHODS[method_id]
    subject = build(workload, device)
    call = method.prepare(subject)
    _load(method)
    release = releaser(device)
    if release is not None:
        release()
    before, _ = _resident(reset=True)
    result = call()
    after, highest = _resident()
    del result
    gc.collect()
    result, allocation = measure_allocation(call, device)
    answer: dict[str, Any] = {
        "source_bytes": subject.bytes,
        "allocated_bytes": None if allocation is None else allocation.allocated_bytes,
        "peak_bytes": None if allocation is None else allocation.peak_bytes,
        "resident_added_bytes": None if before is None or after is None else after - before,
        "resident_peak_bytes": None if before is None or highest is None else max(highest, after or 0) - before,
    }
    if method.makes == "lazy":
        largest = max(subject.tensors_of(result), key=lambda t: t.nbytes)
        with torch.no_grad():
            _, written = measure_allocation(lambda: largest.add_(1), device)
        answer["written_bytes"] = largest.nbytes
        answer["allocated_by_write_bytes"] = None if written is None else written.allocated_bytes
    else:
        answer["own_bytes"] = _own_bytes(subject, result)  # to ask a lazy copy for its memory would copy it
    return answer


def _load(method: Method) -> None:
    """Loads what is loaded at first use, with copies too small to leave memory behind for the one that counts."""
    t = torch.ones(4)
    small = {"tensor": t, "view": t[1:], "model": torch.nn.Linear(2, 2), "to be kept": torch.ones(100_000)}
    if method.makes == "lazy":
        tc.fork(small)
    else:
        tc.copy(small)
        copy.deepcopy(small)


def _own_bytes(subject: Subject, result: Any) -> int:
    """Bytes of the copy's storages, each once."""
    storages = {s.data_ptr(): s.nbytes() for s in (t.untyped_storage() for t in subject.tensors_of(result))}
    return sum(storages.values())


def _resident(*, reset: bool = False) -> tuple[int | None, int | None]:
    """Bytes of main memory that the process has, and the most that it had since the last reset."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None, None
    sizes = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    now, most = (int(sizes[key][0]) * 1024 if key in sizes else None for key in ("VmRSS", "VmHWM"))
    return now, most
