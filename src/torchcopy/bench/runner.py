"""Runs a bench within its time: first a look at every method, then the times, as many as fit.

The look runs each method once or twice: it finds what raises, counts the bytes, compares addresses and learns
what one call costs. With that known, the time that is left is shared out: small sizes get a fair share each,
large ones what six calls take, and sizes that cannot be paid for are left out and said to be. Every point is
visited three times in the run: a neighbour's burst of work hits one visit, not the measurement.
"""

from __future__ import annotations

import dataclasses
import gc
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import torch

from .. import _torch_private
from .._tensors import format_seconds
from ..semantics.allocation import Allocation, measure_allocation
from ..semantics.timing import calls_per_block, sample_times, timing_of
from .cases import Case, Method, spread_out
from .records import Limit, Measurement, Memory, with_ratios

S = TypeVar("S")
R = TypeVar("R")

_LOOK_SHARE = 0.35  # of the time, for the look: sizes that it does not reach are left out
_LOOK_LIMIT = 0.6  # of the time: a look at one large case stops here
_ROUNDS = 3  # visits to each point, spread over the run
_BLOCKS = 4  # times taken in a visit
_FEWEST_BLOCKS = 2  # of a slow call, where time is short
_LEAST_SECONDS = 0.0015  # for a quick call in a visit
_MOST_SECONDS = 0.07
_RESERVE = 0.85  # of the time that is left is planned: slow calls may turn out slower than they looked
_QUICK_SECONDS = 0.02  # calls below this are run once more, now that they are warm

STEPS = 1 + _ROUNDS
"""Steps of progress for each method on each case."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run measured.

    Attributes:
        limits: for each case that was timed.
        measurements: for each case and method.
        seconds: time spent.
    """

    limits: tuple[Limit, ...]
    measurements: tuple[Measurement, ...]
    seconds: float


@dataclasses.dataclass(frozen=True)
class _Look:
    """What the first calls of one method on one case showed."""

    once: float = 0.0
    cyclic: bool = False
    allocation: Allocation | None = None
    data_ptr_differs: bool | None = None
    memory: Memory | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None
    skipped: str | None = None

    @property
    def can_be_timed(self) -> bool:
        return self.error is None and self.skipped is None


def run_cases(
    cases: Sequence[Case[S]],
    methods: Sequence[Method[S]],
    *,
    device: torch.device,
    max_seconds: float,
    on_step: Callable[[str], object] | None = None,
    started: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Outcome:
    """Measures every method on every case, as far as the time goes.

    What a call shares or changes is up to the method. Synchronises the device.

    Args:
        cases: what to copy.
        methods: how.
        device: where the cases live.
        max_seconds: time to spend in all.
        on_step: called before each of the `STEPS * len(cases) * len(methods)` steps with words for it.
        started: what `clock` said when the time began to count; now, if not given.
        clock: tells the time in seconds.
    """
    begun = clock() if started is None else started
    with torch.inference_mode(False), torch.enable_grad():
        return _Run(cases, methods, device, max_seconds, on_step or (lambda _: None), clock, begun).run()


class _Run(Generic[S]):
    def __init__(
        self,
        cases: Sequence[Case[S]],
        methods: Sequence[Method[S]],
        device: torch.device,
        max_seconds: float,
        on_step: Callable[[str], object],
        clock: Callable[[], float],
        started: float,
    ) -> None:
        self.cases, self.methods, self.device = cases, methods, device
        self.max_seconds, self.on_step, self.clock = max_seconds, on_step, clock
        self.started = started
        self.looks: dict[tuple[int, int], _Look] = {}
        self.setup_seconds: dict[int, float] = {}
        self.numbers: dict[tuple[int, int | None], int] = {}
        self.samples: dict[tuple[int, int], list[float]] = {}
        self.limit_samples: dict[int, list[float]] = {}
        self.counting_slows = 1.0  # how many times as long a call takes while its bytes are counted

    def spent(self) -> float:
        return self.clock() - self.started

    def left(self) -> float:
        return self.max_seconds - self.spent()

    def run(self) -> Outcome:
        self._look_at_all()
        self._time_all()
        limits = tuple(self._limit(c) for c in sorted(self.limit_samples))
        measurements = [self._measurement(c, m) for c in range(len(self.cases)) for m in range(len(self.methods))]
        return Outcome(limits, with_ratios(measurements, limits), self.spent())

    def _limit(self, c: int) -> Limit:
        case = self.cases[c]
        return Limit(case.source, case.numel, case.bytes, timing_of(self.limit_samples[c]))

    def _measurement(self, c: int, m: int) -> Measurement:
        case, method, look = self.cases[c], self.methods[m], self.looks[c, m]
        samples = self.samples.get((c, m)) if look.can_be_timed else None
        return Measurement(
            method=method.id,
            code=method.code,
            source=case.source,
            numel=case.numel,
            bytes=case.bytes,
            tensors=case.tensors,
            timing=timing_of(samples) if samples else None,
            allocation=look.allocation,
            data_ptr_differs=look.data_ptr_differs,
            memory=look.memory,
            warnings=look.warnings,
            error=look.error,
            skipped=look.skipped,
        )

    def _skip(self, c: int, m: int, reason: str) -> None:
        self.looks[c, m] = dataclasses.replace(self.looks.get((c, m), _Look()), skipped=reason)

    def _step(self, words: str, *, visits: int = 1) -> None:
        for _ in range(visits):
            self.on_step(words)

    # --- the look ------------------------------------------------------------------------------------------

    def _look_at_all(self) -> None:
        previous: tuple[float, int] | None = None
        for c in sorted(range(len(self.cases)), key=lambda index: self.cases[index].bytes):
            case, begun = self.cases[c], self.spent()
            if previous is not None:
                seconds, size = previous
                expected = seconds * max(1.0, case.bytes / max(size, 1))
                if begun + expected > _LOOK_SHARE * self.max_seconds:
                    self._leave_out(c, f"it is too large for {self.max_seconds:g} s")
                    continue
            self._look_at(c, begun)
            previous = self.spent() - begun, case.bytes

    def _look_at(self, c: int, begun: float) -> None:
        case = self.cases[c]
        try:
            subject = case.build()
        except (RuntimeError, MemoryError) as error:
            self._leave_out(c, f"it could not be built: {_line(error)}")
            return
        self.setup_seconds[c] = self.spent() - begun
        for m, method in enumerate(self.methods):
            self._step(f"{method.id} (look)")
            if self.spent() > _LOOK_LIMIT * self.max_seconds:
                self._skip(c, m, f"the others took so much of {self.max_seconds:g} s that it was not tried")
            else:
                self.looks[c, m] = self._look(case, subject, method)

    def _leave_out(self, c: int, reason: str) -> None:
        for m, method in enumerate(self.methods):
            self._step(f"{method.id} (look)")
            self._skip(c, m, reason)

    def _look(self, case: Case[S], subject: S, method: Method[S]) -> _Look:
        with warnings.catch_warnings(record=True) as caught, _torch_private.every_warning():
            warnings.simplefilter("always")
            try:
                look = self._look_closely(case, subject, method)
            except Exception as error:  # noqa: BLE001  # what a method raises is one of the answers
                look = _Look(error=_line(error))
            case.settle(subject)
        texts = (
            f"{w.category.__name__}: {str(w.message).split('(Triggered internally')[0].strip()}" for w in caught
        )
        return dataclasses.replace(look, warnings=tuple(dict.fromkeys(texts)))

    def _look_closely(self, case: Case[S], subject: S, method: Method[S]) -> _Look:
        call = method.prepare(subject)
        result, once = self._timed(call)
        differs, memory = case.look(subject, result)
        alive = _weak(result) if memory == "own" else None
        del result
        cyclic = False
        if alive is not None and alive() is not None:
            _, collecting = self._timed(gc.collect)
            cyclic = alive() is None  # else it lives on, as what a method writes into does
            if cyclic:  # freed by the garbage collector only, which has to run between the calls
                once += collecting
        if once < _QUICK_SECONDS:
            once = min(once, self._timed(call)[1])
        return _Look(once, cyclic, self._allocation(call, once), differs, memory)

    def _allocation(self, call: Callable[[], object], once: float) -> Allocation | None:
        """Bytes that one call allocates; None where the time does not allow for counting them."""
        if self.spent() + self.counting_slows * once > _LOOK_LIMIT * self.max_seconds:
            return None
        (result, allocation), seconds = self._timed(lambda: measure_allocation(call, self.device))
        del result
        self.counting_slows = max(1.0, seconds / once) if once > _QUICK_SECONDS else 1.0
        return allocation

    def _timed(self, call: Callable[[], R]) -> tuple[R, float]:
        """What one call returns, and the seconds it took."""
        begun = self.clock()
        result = call()
        _synchronise(self.device)
        return result, max(self.clock() - begun, 1e-9)

    # --- the times -----------------------------------------------------------------------------------------

    def _time_all(self) -> None:
        chosen = self._choose()
        for c in range(len(self.cases)):
            if c not in chosen:
                for m in self._all:
                    self._step(self.methods[m].id, visits=_ROUNDS)
                    if self.looks[c, m].can_be_timed:
                        self._skip(c, m, f"timing this size does not fit into {self.max_seconds:g} s")
        visits = [(c, round_) for round_ in range(_ROUNDS) for c in chosen]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for position, (c, _) in enumerate(visits):
                self._visit(c, [later for later, _ in visits[position + 1 :]])

    def _choose(self) -> list[int]:
        """The cases that can be paid for, in the order in which a cut hurts least."""
        waiting = [c for c in spread_out(self.cases) if any(self.looks[c, m].can_be_timed for m in self._all)]
        left = self.left()
        chosen: list[int] = []
        for position, c in enumerate(waiting):
            cost, is_last = _ROUNDS * self._least(c), position == len(waiting) - 1
            # One size must not starve the others: none gets more than half of what is left.
            if not chosen or cost <= left * (1.0 if is_last else 0.5):
                chosen.append(c)
                left -= cost
        return chosen

    @property
    def _all(self) -> range:
        return range(len(self.methods))

    def _needs(self, c: int) -> list[float]:
        """Seconds that each method of a case needs at the least in one visit."""
        looks = [self.looks[c, m] for m in self._all]
        return [max(_LEAST_SECONDS, _FEWEST_BLOCKS * look.once) for look in looks if look.can_be_timed]

    def _least(self, c: int) -> float:
        """Seconds that one visit to a case takes at the least, the limit included."""
        needs = self._needs(c)
        return self.setup_seconds[c] + sum(needs) * (1 + 1 / len(needs))

    def _share(self, c: int, later: Sequence[int]) -> tuple[float, int]:
        """Seconds for each quick call, and blocks for each slow one, in this visit and those to come."""
        needs = [need for case in (c, *later) for need in (*self._needs(case), _LEAST_SECONDS)]
        left = _RESERVE * (self.left() - sum(self.setup_seconds[case] for case in (c, *later)))
        share, slow = _MOST_SECONDS, needs
        for _ in range(4):  # what is slow depends on the share, and the share on what is slow
            slow = [need for need in needs if need > share]
            share = (left - sum(slow)) / max(len(needs) - len(slow), 1)
            share = min(max(share, _LEAST_SECONDS), _MOST_SECONDS)
        spare = left - share * (len(needs) - len(slow))
        plenty = spare / sum(slow) if slow else 1.0
        return share, min(max(int(_FEWEST_BLOCKS * plenty), _FEWEST_BLOCKS), _BLOCKS)

    def _visit(self, c: int, later: Sequence[int]) -> None:
        """Times every method of a case, and its limit, once more.

        Each point is visited several times in a run, so that what disturbs the machine for a second does not
        decide any of them, and shows in the spread.
        """
        case, (share, slow_blocks) = self.cases[c], self._share(c, later)
        if self.left() <= self.setup_seconds[c]:
            self._miss(c)
            return
        begun = self.spent()
        subject = case.build()
        limit = case.limit(subject)
        once = self._timed(limit)[1]
        self.setup_seconds[c] = self.spent() - begun
        if self.left() > 0 or c not in self.limit_samples:
            self.limit_samples.setdefault(c, []).extend(self._sample((c, None), limit, once, share, _BLOCKS))
        del limit  # and its buffer
        for m, method in enumerate(self.methods):
            self._step(f"{method.id} {case.source}")
            look = self.looks[c, m]
            if not look.can_be_timed:
                continue
            if _FEWEST_BLOCKS * look.once > self.left():
                if (c, m) not in self.samples:
                    self._skip(c, m, self._too_late(_FEWEST_BLOCKS * look.once))
                continue
            try:
                call = method.prepare(subject)
                after = gc.collect if look.cyclic else None
                times = self._sample((c, m), call, look.once, share, slow_blocks, after)
                self.samples.setdefault((c, m), []).extend(times)
            except Exception as error:  # noqa: BLE001  # what a method raises is one of the answers
                self.looks[c, m] = dataclasses.replace(look, error=_line(error))
            case.settle(subject)

    def _miss(self, c: int) -> None:
        """Notes that the time is over for what has not been timed at all."""
        for m, method in enumerate(self.methods):
            self._step(f"{method.id} {self.cases[c].source}")
            if self.looks[c, m].can_be_timed and (c, m) not in self.samples:
                self._skip(c, m, self._too_late(self.setup_seconds[c]))

    def _sample(
        self,
        key: tuple[int, int | None],
        call: Callable[[], object],
        once: float,
        seconds: float,
        slow_blocks: int,
        after: Callable[[], object] | None = None,
    ) -> list[float]:
        if after is not None:
            # Copies that only the garbage collector frees would pile up: it stands still while a block is timed.
            self.numbers[key] = 1
        elif key not in self.numbers:
            self.numbers[key] = calls_per_block(call, block_seconds=seconds / _BLOCKS, once=once)
        blocks = _BLOCKS
        if self.numbers[key] == 1:
            blocks = max(slow_blocks, int(seconds / once))
        return sample_times(call, number=self.numbers[key], blocks=blocks, after_block=after)

    def _too_late(self, needed: float) -> str:
        if self.left() <= 0:
            return f"{self.max_seconds:g} s were spent before its turn"
        left = format_seconds(self.left())
        return f"{left} were left of {self.max_seconds:g} s, and it takes {format_seconds(needed)}"


def _weak(result: object) -> weakref.ref[object] | None:
    try:
        return weakref.ref(result)
    except TypeError:  # lists, tuples and dicts of tensors hold no cycle of their own
        return None


def _synchronise(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0].strip()}".removesuffix(": ")
