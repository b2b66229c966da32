"""Times of one way to copy one workload, or a row of sizes, in a process that does nothing else.

The garbage collector, the threads and the allocator are as Python and PyTorch set them.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import time
from collections.abc import Callable
from typing import Any, Literal

import torch
from copying_methods import METHODS, check
from copying_workloads import WORKLOADS, Subject

import torchcopy as tc
from torchcopy.bench.neighbours import watch_neighbours
from torchcopy.bench.preflight import check_memory

State = Literal["replaced", "settled", "dropped", "fresh", "warm"]
"""How the memory is when a call begins: see benchmarks/README.md."""

MOST_CALLS = 100
EARLY = 5
"""Turns of a loop that are timed before the C library keeps the memory that it is given back."""
WARM_UP = 6
"""Turns of a loop until it does: on Linux, five or so."""
LONG_SECONDS = 0.5
"""Of what takes longer, a round times fewer calls."""
GROWTH_METHODS = ("tc.copy_state", "tc.fork_state", "deepcopy_state", "clones")
GROWTH_SIZES = {
    "tensors": (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000),
    "bytes": tuple(10**6 * k for k in (1, 3, 10, 30, 100, 300, 1000)),
    "bytes in 100 tensors": tuple(10**6 * k for k in (1, 3, 10, 30, 100, 300, 1000)),
}
QUICK_GROWTH = {"tensors": 1000, "bytes": 10**7, "bytes in 100 tensors": 10**7}
"""Where `--quick` stops."""


class Kept:
    """Holds a result, as a program does.

    To make one may start the garbage collector: who put it off during the call pays for it within the time.
    """

    def __init__(self, result: Any) -> None:
        self.result = result


def build(workload: str, device: torch.device) -> Subject:
    subject = WORKLOADS[workload].build(device)
    # Beside the source: a result, the one that replaces it, what a method may need on its way, and the limit's.
    instead = "free some memory, or leave it out with `--only`"
    check_memory(4 * subject.bytes, device, what=f"copying {WORKLOADS[workload].title}", instead=instead)
    gc.collect()  # what building left behind is nobody's to collect
    return subject


def releaser(device: torch.device) -> Callable[[], object] | None:
    """Gives free memory back to the system, this library's included; None where there is no way to."""
    if device.type == "cuda":
        return torch.cuda.empty_cache
    try:
        trim = functools.partial(ctypes.CDLL(None).malloc_trim, 0)
    except (AttributeError, OSError, TypeError):  # not glibc
        return None

    def release() -> None:
        tc.empty_cache()
        trim()

    return release


# --- times ---------------------------------------------------------------------------------------------------


def runs_of(method_id: str) -> tuple[tuple[State, ...], ...]:
    """The states of memory in which a method is timed: each tuple in a process of its own, in this order.

    What went before decides what the C library does: who has dropped and replaced finds other memory than who has
    only dropped.
    """
    if METHODS[method_id].makes in ("in place", "average"):
        return (("warm",),)
    return ("replaced", "settled", "fresh"), ("dropped",)


def times(
    workload: str, method_id: str, device_name: str, calls: int, seconds: float, states: tuple[State, ...]
) -> dict[str, Any]:
    """Seconds of single calls, in each state of the memory: `calls` of them, or for `seconds` if these are more."""
    device, method = torch.device(device_name), METHODS[method_id]
    subject = build(workload, device)
    call = method.prepare(subject)
    limit = METHODS["limit"].prepare(subject) if method.is_ours and method.makes in ("own", "in place") else None
    _synchronise(device)
    others = watch_neighbours()
    begun = time.perf_counter()
    result = call()
    _synchronise(device)
    first = time.perf_counter() - begun
    check(subject, method, result)
    del result
    stopwatch = Stopwatch(call, device, calls, seconds)
    taken: dict[State, list[float]] = {}
    limits: dict[State, list[float]] = {}
    for state in states:
        if state == "replaced":
            taken[state] = stopwatch.replaced()
        elif state == "dropped":
            taken[state] = stopwatch.dropped()
        elif state in ("settled", "warm"):
            taken[state] = stopwatch.settled()
        elif (release := releaser(device)) is not None:
            taken[state] = stopwatch.fresh(release, subject.tensors if method.makes == "lazy" else [])
        if limit is not None:  # at once: the memory of a shared machine is quicker at one minute than at another
            limits[state] = Stopwatch(limit, device, calls, seconds).settled()
    return {
        "bytes": subject.bytes,
        "tensors": len(subject.tensors),
        "first_seconds": first,
        "times": taken,
        "limits": limits,
        "others_share": others(),
    }


class Stopwatch:
    """Times a call in the states of memory in which programs make copies; each method returns seconds."""

    def __init__(self, call: Callable[[], Any], device: torch.device, calls: int, seconds: float) -> None:
        self.call, self.device, self.calls, self.seconds = call, device, calls, seconds

    def replaced(self) -> list[float]:
        """`best = copy(x)`, as a program does it now and then: the first turns of a loop."""
        kept = [Kept(self.call())]

        def once() -> None:
            kept[0] = Kept(self.call())

        return self._timed(once, exactly=EARLY)

    def settled(self) -> list[float]:
        """The same for long: the C library has given up giving memory back."""
        kept = [Kept(self.call())]

        def once() -> None:
            kept[0] = Kept(self.call())

        for _ in range(WARM_UP):
            once()
        return self._timed(once)

    def dropped(self) -> list[float]:
        """As `replaced`, but each result is dropped before the next one is made."""
        kept: list[Kept] = [Kept(self.call())]

        def once() -> None:
            kept.clear()
            kept.append(Kept(self.call()))

        return self._timed(once, exactly=EARLY)

    def fresh(self, release: Callable[[], object], written: list[torch.Tensor]) -> list[float]:
        """The result's memory comes from the system, as that of the first copy of a program does.

        All that is free is given back before each call. The tensors `written` have been written since the last
        one: the source of a fork, which shares no memory any more.
        """
        kept: list[Kept] = []

        def before() -> None:
            for t in written:
                t.zero_()  # while the last fork lives: this copies
            kept.clear()
            release()

        return self._timed(lambda: kept.append(Kept(self.call())), before)

    def _timed(
        self, once: Callable[[], None], before: Callable[[], None] = lambda: None, exactly: int | None = None
    ) -> list[float]:
        taken: list[float] = []
        while len(taken) < exactly if exactly else not taken or self._goes_on(len(taken), sum(taken)):
            before()
            _synchronise(self.device)
            begun = time.perf_counter()
            once()
            _synchronise(self.device)
            taken.append(time.perf_counter() - begun)
        return taken

    def _goes_on(self, count: int, total: float) -> bool:
        if count < self.calls:
            return total < LONG_SECONDS
        return total < self.seconds and count < MOST_CALLS


def _synchronise(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


# --- growth --------------------------------------------------------------------------------------------------


def growth(kind: str, method_id: str, device_name: str, calls: int, seconds: float, largest: int) -> dict[str, Any]:
    """Times of one method on dicts of more and more tensors, or bytes."""
    device, method = torch.device(device_name), METHODS[method_id]
    points = []
    for size in (size for size in GROWTH_SIZES[kind] if size <= largest):
        call = method.prepare(_sized(kind, size, device))
        points.append({"size": size, "times": Stopwatch(call, device, calls, seconds).settled()})
    return {"points": points}


def _sized(kind: str, size: int, device: torch.device) -> Subject:
    shape: tuple[int, ...]
    if kind == "tensors":
        count, shape = size, (16, 16)
    elif kind == "bytes":
        count, shape = 1, (size // 4,)
    else:
        count, shape = 100, (size // 400,)
    state = {f"tensor {k}": torch.ones(shape, device=device) for k in range(count)}
    return Subject(state, state, list(state.values()), lambda copied: list(copied.values()))
