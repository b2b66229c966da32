"""What the copying benchmark compares, and how many times as fast it has to be: the lines of its tables."""

from __future__ import annotations

import dataclasses
from typing import Any

from copying_methods import METHODS, named
from copying_results import STATES, Found, Measured, Spread, ratios, spread_of
from copying_worker import State

# Against a dict of clones and its like, for all workloads that have a dict of tensors.
_STATE: tuple[tuple[str, str, float | None], ...] = (
    ("tc.copy_state", "deepcopy_state", 1.5),
    ("tc.copy_state", "clones", 1.0),
    ("tc.copy_state", "tensordict", 1.0),
    ("tc.copy_state", "optree", None),
    ("tc.copy_state", "copium_state", None),
    ("tc.copy_state", "blocking_stager", None),
    ("tc.copy_state", "default_stager", None),
    ("tc.copy_state", "limit", None),
)
_STATE_OF_MANY = tuple(
    (ours, theirs, 5.0 if theirs == "deepcopy_state" else floor) for ours, theirs, floor in _STATE
)

COMPARED: dict[str, tuple[tuple[str, str, float | None], ...]] = {
    "W1": (
        ("tc.copy", "deepcopy", 3.5),
        ("tc.copy", "copium", None),
        ("tc.copy", "limit", 0.8),
        *_STATE,
        ("tc.copy_state", "clones_each_once", None),
        ("tc.fork", "deepcopy", 80.0),
        ("tc.fork_state", "deepcopy_state", 300.0),
        ("tc.copy_", "limit", 0.95),
        ("tc.copy_", "copy_loop", None),
        ("tc.copy_", "load_state_dict", None),
    ),
    "W2": (
        ("tc.copy", "deepcopy", 3.5),
        ("tc.copy", "copium", None),
        ("tc.copy", "limit", None),
        *_STATE,
        ("tc.fork", "deepcopy", None),
        ("tc.fork_state", "deepcopy_state", None),
        ("tc.copy_", "limit", None),
        ("tc.copy_", "copy_loop", None),
        ("tc.copy_", "load_state_dict", None),
        ("tc.lerp_", "averaged_model", 1.0),
        ("tc.lerp_", "averaged_buffers", None),
        ("tc.lerp_", "lerp_loop", None),
    ),
    "W3": (
        ("tc.copy", "deepcopy", 2.0),
        ("tc.copy", "copium", None),
        ("tc.copy", "limit", None),
        *_STATE_OF_MANY,
        ("tc.fork", "deepcopy", None),
        ("tc.fork_state", "deepcopy_state", None),
        ("tc.copy_", "limit", None),
        ("tc.copy_", "copy_loop", 1.2),
        ("tc.copy_", "load_state_dict", 3.5),
        ("tc.lerp_", "averaged_model", 1.0),
        ("tc.lerp_", "lerp_loop", 2.0),
    ),
    "W4": (
        ("tc.copy", "deepcopy", 3.0),
        ("tc.copy", "copium", None),
        ("tc.copy", "limit", None),
        ("tc.fork", "deepcopy", None),
    ),
    "W5": (*_STATE, ("tc.fork_state", "deepcopy_state", None)),
    "W6": (
        ("tc.copy", "deepcopy", 1.5),
        ("tc.copy", "copium", None),
        ("tc.fork", "deepcopy", None),
    ),
    "tiny": (
        ("tc.copy", "deepcopy", None),
        ("tc.copy", "copium", None),
        *((ours, theirs, None) for ours, theirs, _ in _STATE),
        ("tc.copy_", "copy_loop", None),
        ("tc.lerp_", "averaged_model", None),
    ),
    "views": (("tc.copy_state", "deepcopy_state", None),),
}
"""For each workload: what is compared with what, and how many times as fast it has to be."""

FORK_US_A_TENSOR = {"W1": 2.0, "W2": None, "W3": 2.0, "W4": None, "tiny": None}
MEMORY_RATIO = 1.02
LARGE_BYTES = 50_000_000
"""From so many bytes on, the memory of the Python objects around the tensors does not matter to the ratio."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of a table: something measured, and the floor it is held against.

    Attributes:
        workload: id of the workload.
        what: what was measured.
        against: what it is compared with.
        floor: the value to reach; None where none is set.
        found: what was measured, by state of the memory; what has one state only is under `warm`.
        at_most: whether the value must not be above the floor, instead of not below.
        unit: of the value: `×`, `µs`, `B`.
        note: why there is no value.
    """

    workload: str
    what: str
    against: str
    floor: float | None = None
    found: dict[State, Spread] = dataclasses.field(default_factory=dict)
    at_most: bool = False
    unit: str = "×"
    note: str | None = None

    def reached(self, state: State) -> bool | None:
        """Whether the median reaches the floor in this state; None without a floor or a value."""
        if self.floor is None or state not in self.found:
            return None
        value = self.found[state].median
        return value <= self.floor if self.at_most else value >= self.floor

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        found = {
            state: {**spread.to_dict(), "reached": self.reached(state)} for state, spread in self.found.items()
        }
        return {**dataclasses.asdict(self), "found": found}


def rows_of(workload: str, found: Found, memory: dict[str, dict[str, Any]]) -> list[Row]:
    """The lines of one workload's table: speeds, the time of a fork for each tensor, memory."""
    rows = [_speed_row(found, workload, *compared) for compared in COMPARED[workload]]
    if workload in FORK_US_A_TENSOR:
        rows.append(_a_tensor_row(found, workload))
    for method_id, answer in memory.items():
        rows += _memory_rows(workload, method_id, answer)
    return rows


def _speed_row(found: Found, workload: str, method: str, against: str, floor: float | None) -> Row:
    what, other = METHODS[method], METHODS[against]
    row = Row(workload, named(what.label, what, workload), named(other.label, other, workload), floor)
    ours, theirs = found[workload, method], found[workload, against]
    error = ours.error or theirs.error
    if error is not None:
        return dataclasses.replace(row, note=error)
    spreads: dict[State, Spread] = {}
    for state in _states_of(ours, theirs):
        spread = spread_of(ours.shares_of_limit(state) if against == "limit" else ratios(ours, theirs, state))
        if spread is not None:
            spreads[state] = spread
    return dataclasses.replace(row, found=spreads)


def _states_of(*sides: Measured) -> list[State]:
    """The states of memory in which the sides are compared: `warm` only if that is all that they know."""
    known = {state for side in sides for times in side.rounds for state in times}
    return [state for state in STATES if state in known and (state != "warm" or known == {"warm"})]


def _a_tensor_row(found: Found, workload: str) -> Row:
    method = METHODS["tc.fork_state" if (workload, "tc.fork_state") in found else "tc.fork"]
    row = Row(
        workload,
        named(method.label, method, workload),
        "µs for a tensor",
        FORK_US_A_TENSOR[workload],
        at_most=True,
        unit="µs",
    )
    ours = found[workload, method.id]
    if ours.error is not None:
        return dataclasses.replace(row, note=ours.error)
    spreads: dict[State, Spread] = {}
    for state in _states_of(ours):
        spread = ours.seconds(state)
        if spread is not None:
            spreads[state] = Spread(*(1e6 * s / ours.tensors for s in (spread.low, spread.median, spread.high)))
    return dataclasses.replace(row, found=spreads)


def _memory_rows(workload: str, method_id: str, answer: dict[str, Any]) -> list[Row]:
    method = METHODS[method_id]
    what = named(method.label, method, workload)
    if method.id.startswith("deepcopy"):
        what = named(method.code, method, workload)
    if "error" in answer:
        return [Row(workload, what, "memory", note=answer["error"])]
    if method.makes == "lazy":
        written = answer["written_bytes"]
        return [
            _one(workload, what, "bytes allocated", 0.0, answer["allocated_bytes"], unit="B"),
            _one(workload, what, "bytes resident", None, answer["resident_added_bytes"], unit="B"),
            _one(workload, what, "write ÷ bytes", None, _over(answer["allocated_by_write_bytes"], written)),
        ]
    own, floor = answer["own_bytes"], MEMORY_RATIO if method.is_ours else None
    rows = [_one(workload, what, "peak ÷ own bytes", floor, _over(answer["peak_bytes"], own))]
    if own >= LARGE_BYTES:
        peak = _over(answer["resident_peak_bytes"], own)
        rows.append(_one(workload, what, "same, resident", floor, peak))
    return rows


def _over(part: int | None, whole: int) -> float | None:
    return None if part is None else part / whole


def _one(workload: str, what: str, against: str, floor: float | None, value: float | None, unit: str = "×") -> Row:
    """A line of one figure that has no spread."""
    row = Row(workload, what, against, floor, at_most=True, unit=unit)
    if value is None:
        return dataclasses.replace(row, note="this machine does not tell")
    return dataclasses.replace(row, found={"warm": Spread(value, value, value)})


def tally(rows: list[Row]) -> dict[str, dict[str, int]]:
    """How many floors are reached in each state; what has one state only counts in each."""
    counts: dict[str, dict[str, int]] = {}
    for state in STATES[:-1]:
        answers = [row.reached(state if state in row.found else "warm") for row in rows if row.floor is not None]
        counts[state] = {
            "reached": answers.count(True),
            "not_reached": answers.count(False),
            "not_measured": answers.count(None),
        }
    return counts
