"""What the copying benchmark found: times, ratios of each round with their spread, growth."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from copying_methods import METHODS, named
from copying_worker import State

from torchcopy.semantics.timing import quartiles

STATES: tuple[State, ...] = ("replaced", "settled", "dropped", "fresh", "warm")


@dataclasses.dataclass(frozen=True)
class Spread:
    """A median with its quartiles."""

    low: float
    median: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Plain data, ready for JSON; four digits."""
        return {name: rounded(value) for name, value in dataclasses.asdict(self).items()}


def spread_of(values: Sequence[float]) -> Spread | None:
    """The spread of the values; None of none."""
    return Spread(*quartiles(list(values))) if values else None


def rounded(x: float) -> float:
    """Four digits: the clock tells no more."""
    return float(f"{x:.4g}")


@dataclasses.dataclass
class Measured:
    """One way to copy one workload: what its processes said.

    Attributes:
        workload: id of the workload.
        method: id of the method.
        rounds: for each round, seconds of its calls by state of the memory.
        limits: for each round and state, seconds of the limit, timed just after it; of this library's methods.
        first_seconds: for each process, seconds of its first call, the imports included.
        bytes: bytes of the workload's tensors.
        tensors: how many there are.
        others_share: for each process, the share of the processors that other programs used; None where untold.
        error: what it raised, or why it is missing.
    """

    workload: str
    method: str
    rounds: list[dict[State, list[float]]] = dataclasses.field(default_factory=list)
    limits: list[dict[State, list[float]]] = dataclasses.field(default_factory=list)
    first_seconds: list[float] = dataclasses.field(default_factory=list)
    bytes: int = 0
    tensors: int = 0
    others_share: list[float | None] = dataclasses.field(default_factory=list)
    error: str | None = None

    def add(self, answers: Sequence[dict[str, Any]]) -> None:
        """Takes in what the processes of one round answered."""
        self.error = next((answer["error"] for answer in answers if "error" in answer), None)
        if self.error is None:
            self.bytes, self.tensors = answers[0]["bytes"], answers[0]["tensors"]
            self.rounds.append({state: seconds for answer in answers for state, seconds in answer["times"].items()})
            self.limits.append(
                {state: seconds for answer in answers for state, seconds in answer["limits"].items()}
            )
            self.first_seconds += [answer["first_seconds"] for answer in answers]
            self.others_share += [answer["others_share"] for answer in answers]

    def medians(self, state: State) -> list[float]:
        """The median of each round; a way into existing memory knows one state only, whichever is asked for."""
        taken = [times.get(state) or times.get("warm") for times in self.rounds]
        return [statistics.median(seconds) for seconds in taken if seconds]

    def shares_of_limit(self, state: State) -> list[float]:
        """How much of the limit's speed it has, in each round."""
        limits = [statistics.median(each[state]) for each in self.limits if state in each]
        return [limit / own for limit, own in zip(limits, self.medians(state), strict=True)]

    def seconds(self, state: State) -> Spread | None:
        """Time of a call: median and quartiles of the rounds' medians; None where none was timed."""
        return spread_of(self.medians(state)) if self.error is None else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        method = METHODS[self.method]
        spreads = {state: self.seconds(state) for state in STATES if self.rounds and state in self.rounds[0]}
        return {
            "workload": self.workload,
            "method": self.method,
            "code": named(method.code, method, self.workload),
            "makes": method.makes,
            "bytes": self.bytes,
            "tensors": self.tensors,
            "error": self.error,
            "seconds": {state: spread.to_dict() for state, spread in spreads.items() if spread is not None},
            "first_seconds": list(map(rounded, self.first_seconds)),
            "times": [{s: list(map(rounded, times)) for s, times in each.items()} for each in self.rounds],
            "limits": [{s: list(map(rounded, times)) for s, times in each.items()} for each in self.limits],
            "others_share": [None if share is None else rounded(share) for share in self.others_share],
        }


Found = dict[tuple[str, str], Measured]
"""By ids of workload and method."""


def ratios(ours: Measured, theirs: Measured, state: State) -> list[float]:
    """How many times as fast `ours` was, in each round: noise of the machine that lasts hits both."""
    return [slow / fast for slow, fast in zip(theirs.medians(state), ours.medians(state), strict=True)]


# --- growth --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Growth:
    """How the cost of one method grows.

    Attributes:
        kind: what grows: `tensors`, `bytes`, `bytes in 100 tensors`.
        method: id of the method.
        sizes: the sizes.
        seconds: median time at each.
        slope: of the logarithm of time against that of size, over the upper half of the sizes: 1 is linear.
        slope_of_all: the same over all sizes.
        error: what it raised.
    """

    kind: str
    method: str
    sizes: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()
    slope: float | None = None
    slope_of_all: float | None = None
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {**dataclasses.asdict(self), "seconds": list(map(rounded, self.seconds))}


def growth_of(kind: str, method: str, answer: dict[str, Any]) -> Growth:
    """Medians and slopes from what a process said."""
    if "error" in answer:
        return Growth(kind, method, error=answer["error"])
    sizes = tuple(point["size"] for point in answer["points"])
    seconds = tuple(statistics.median(point["times"]) for point in answer["points"])
    half = len(sizes) // 2
    return Growth(kind, method, sizes, seconds, _slope(sizes[half:], seconds[half:]), _slope(sizes, seconds))


def _slope(sizes: Sequence[int], seconds: Sequence[float]) -> float | None:
    if len(sizes) < 2:
        return None
    return float(np.polyfit(np.log(np.asarray(sizes, dtype=float)), np.log(np.asarray(seconds)), 1)[0])
