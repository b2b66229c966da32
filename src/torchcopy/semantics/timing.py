"""Times of calls, with their spread, by `torch.utils.benchmark`: warmed up and synchronised."""

from __future__ import annotations

import dataclasses
import statistics
import timeit
from collections.abc import Callable
from typing import Any, Literal

import torch

Comparison = Literal["faster", "slower", "too close to call"]

_FEWEST_RUNS = 5
_BLOCKS = 9
_FEWEST_IN_BLOCK = 20  # fewer calls are timed one by one


@dataclasses.dataclass(frozen=True)
class Timing:
    """How long one call takes.

    Attributes:
        median_seconds: median time of one call.
        low_seconds: lower quartile.
        high_seconds: upper quartile.
        runs: number of timed blocks behind them.
    """

    median_seconds: float
    low_seconds: float
    high_seconds: float
    runs: int

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class TimeRatio:
    """How many times as long one call takes as another, measured in turn in one run.

    Attributes:
        median: median of the ratios of neighbouring measurements.
        low: lower quartile of the ratios.
        high: upper quartile.
        rounds: number of ratios.
    """

    median: float
    low: float
    high: float
    rounds: int

    def compared_with(self, limit: float = 1.0) -> Comparison:
        """Whether the ratio is below `limit` ("faster"), above ("slower"), or too close to it to tell.

        Too close means that the quartiles lie on both sides of the limit, or that the median is within 3 % of it.
        """
        if self.low <= limit <= self.high or abs(self.median / limit - 1) < 0.03:
            return "too close to call"
        return "faster" if self.median < limit else "slower"

    def __str__(self) -> str:
        """The ratio with its quartiles."""
        return f"{self.median:.2f}× (quartiles {self.low:.2f} to {self.high:.2f}, {self.rounds} rounds)"

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def time_call(call: Callable[[], object], *, min_seconds: float = 0.05) -> Timing:
    """Times `call`, which runs many times, for at least `min_seconds` after a warm-up.

    Uses as many threads as PyTorch is set to. Synchronises CUDA around each block. What `call` shares or changes
    is up to `call`.
    """
    timer = _timer(call)
    call()
    measurement = timer.blocked_autorange(min_run_time=min_seconds)
    times = list(measurement.times)
    while len(times) < _FEWEST_RUNS:
        times += timer.timeit(measurement.number_per_run).times
    low, median, high = quartiles(times)
    return Timing(median, low, high, len(times))


def time_within(
    call: Callable[[], object],
    *,
    seconds: float,
    once: float,
    after_block: Callable[[], object] | None = None,
) -> Timing:
    """Times `call`, which is warm already, in about `seconds`, or in five calls where those take longer.

    Uses as many threads as PyTorch is set to. Synchronises CUDA around each block. What `call` shares or changes
    is up to `call`.

    Args:
        call: what is timed, the giving back of what it returns included.
        seconds: time to spend.
        once: what one call takes, as far as is known.
        after_block: called after each block of calls, outside the time that is taken; a block is one call then.
    """
    block = seconds / _BLOCKS
    number = round(block / max(once, 1e-8))
    if number >= _FEWEST_IN_BLOCK and after_block is None:
        timer = _timer(call)
        number = max(1, round(block / max(timer.timeit(min(number, 100)).median, 1e-8)))
        times = [timer.timeit(number).median for _ in range(_BLOCKS)]
    else:
        times = _time_singly(call, max(_FEWEST_RUNS, int(seconds / max(once, 1e-8))), after_block)
    low, median, high = quartiles(times)
    return Timing(median, low, high, len(times))


def _time_singly(
    call: Callable[[], object], runs: int, after_each: Callable[[], object] | None = None
) -> list[float]:
    """Times of `runs` calls, by the clock of `torch.utils.benchmark`, whose `Timer` warms up before each one."""
    from torch.utils.benchmark import timer as clock

    single, times = timeit.Timer("call()", globals={"call": call}, timer=clock), []
    for _ in range(runs):
        times.append(max(single.timeit(1), 1e-9))
        if after_each is not None:
            after_each()
    return times


def time_ratio(
    call: Callable[[], object],
    base: Callable[[], object],
    *,
    rounds: int = 15,
    min_seconds: float = 0.3,
) -> TimeRatio:
    """Times `call` against `base` in turn, so that a drift of the machine's speed hits both alike.

    Args:
        call: what is timed.
        base: what it is compared with.
        rounds: number of ratios.
        min_seconds: time to spend in all.
    """
    timers = _timer(call), _timer(base)
    call(), base()
    block = min_seconds / (2 * rounds)
    numbers = [max(1, round(block / max(timer.timeit(1).median, 1e-7))) for timer in timers]
    # A second look, now that the first call's cost is behind: it decides how many calls make a block.
    numbers = [
        max(1, round(block / max(timer.timeit(min(n, 100)).median, 1e-7)))
        for timer, n in zip(timers, numbers, strict=True)
    ]
    ratios = []
    for index in range(rounds):
        pair = [0.0, 0.0]
        for side in (0, 1) if index % 2 else (1, 0):
            pair[side] = timers[side].timeit(numbers[side]).median
        ratios.append(pair[0] / pair[1])
    low, median, high = quartiles(ratios)
    return TimeRatio(median, low, high, rounds)


def _timer(call: Callable[[], object]) -> Any:
    from torch.utils.benchmark import Timer

    return Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
