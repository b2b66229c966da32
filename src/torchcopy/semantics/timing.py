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


def calls_per_block(call: Callable[[], object], *, block_seconds: float, once: float) -> int:
    """How many calls of `call` make a block of about `block_seconds`; 1 where a call is long enough by itself.

    Args:
        call: what will be timed; it runs up to 100 times here. What it shares or changes is up to it.
        block_seconds: how long a block shall take.
        once: what one call takes, as far as is known.
    """
    number = round(block_seconds / max(once, 1e-8))
    if number < _FEWEST_IN_BLOCK:
        return 1
    warm: float = _timer(call).timeit(min(number, 100)).median
    return max(1, round(block_seconds / max(warm, 1e-8)))


def sample_times(
    call: Callable[[], object],
    *,
    number: int,
    blocks: int,
    after_block: Callable[[], object] | None = None,
) -> list[float]:
    """Times of one call, measured in `blocks` blocks of `number` calls; `call` is warm already.

    Uses as many threads as PyTorch is set to. Synchronises CUDA around each block. What `call` shares or changes
    is up to `call`.

    Args:
        call: what is timed, the giving back of what it returns included.
        number: calls in a block.
        blocks: number of blocks.
        after_block: called after each block, outside the time that is taken.
    """
    from torch.utils.benchmark import timer as clock

    times = []
    # `Timer` warms up before each block, which single calls that take long cannot afford: those get its clock only.
    single = timeit.Timer("call()", globals={"call": call}, timer=clock)
    several = _timer(call)
    for _ in range(blocks):
        times.append(max(single.timeit(1), 1e-9) if number == 1 else several.timeit(number).median)
        if after_block is not None:
            after_block()
    return times


def timing_of(times: list[float]) -> Timing:
    """The median and the quartiles of single times."""
    low, median, high = quartiles(times)
    return Timing(median, low, high, len(times))


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
