"""What a bench found, as records that read and write plain data.

Ratios mean the same everywhere. `ratio_to_best` is time over the time of the fastest method that makes a copy
of the same source and size: 1.0 is the best, 2.0 takes twice as long. `ratio_to_limit` is the time of the limit
over the method's time: 1.0 is the speed of the memory, 0.5 half of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args

from .._errors import InputError
from ..semantics.allocation import Allocation
from ..semantics.machine import Gpu, Machine
from ..semantics.timing import Timing

SCHEMA = "torchcopy-bench"
SCHEMA_VERSION = 1

BenchKind = Literal["tensors", "values", "model"]
"""What was copied: tensors built to order, tensors of the caller's, or a whole model."""

Memory = Literal["own", "share", "lazy"]
"""Whose memory the result was seen to have: its own, the source's, or the source's until somebody writes."""

Key = tuple[str, str, int]
"""Method, source and number of elements: what one measurement is about."""

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Limit:
    """The limit of the memory: a warm `copy_` into memory that exists already.

    Attributes:
        source: what was copied.
        numel: its number of elements.
        bytes: its bytes.
        timing: time of one `copy_`.
    """

    source: str
    numel: int
    bytes: int
    timing: Timing

    @property
    def bytes_per_second(self) -> float:
        """Bytes copied a second; the memory reads and writes each of them."""
        return self.bytes / self.timing.median_seconds

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return {**dataclasses.asdict(self), "bytes_per_second": self.bytes_per_second}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Limit:
        """The record that `to_dict` wrote."""
        return cls(str(data["source"]), int(data["numel"]), int(data["bytes"]), _timing(data["timing"]))


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One method on one source of one size.

    Attributes:
        method: id of the method.
        code: the expression it stands for.
        source: what was copied: a kind of source, the caller's name for a tensor, or `model`.
        numel: number of elements copied.
        bytes: bytes of them.
        tensors: number of tensors they are in.
        timing: time of one call: allocating, copying and giving the memory back. None where it was not timed.
        ratio_to_best: time over that of the fastest copy; None for results that are no copy.
        ratio_to_limit: time of the limit over this time, as a share; None for results that are no copy.
        allocation: bytes that one call allocates; None where the device does not tell.
        data_ptr_differs: the article's check: whether the result begins at another address than its source. For a
            model, whether every tensor does.
        memory: whose memory the result was seen to have.
        warnings: the warnings that the call gave.
        error: what the method raised instead.
        skipped: why it was not timed, if it was not.
    """

    method: str
    code: str
    source: str
    numel: int
    bytes: int
    tensors: int = 1
    timing: Timing | None = None
    ratio_to_best: float | None = None
    ratio_to_limit: float | None = None
    allocation: Allocation | None = None
    data_ptr_differs: bool | None = None
    memory: Memory | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None
    skipped: str | None = None

    @property
    def key(self) -> Key:
        """What the measurement is about, to find it in another report."""
        return self.method, self.source, self.numel

    @property
    def is_copy(self) -> bool:
        """Whether the result was seen to have memory of its own; ratios are taken among these only."""
        return self.memory == "own"

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return {**dataclasses.asdict(self), "is_copy": self.is_copy, "warnings": list(self.warnings)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Measurement:
        """The record that `to_dict` wrote."""
        memory = data["memory"]
        if memory is not None and memory not in get_args(Memory):
            raise ValueError(f"memory {memory!r}")
        return cls(
            method=str(data["method"]),
            code=str(data["code"]),
            source=str(data["source"]),
            numel=int(data["numel"]),
            bytes=int(data["bytes"]),
            tensors=int(data["tensors"]),
            timing=_maybe(_timing, data["timing"]),
            ratio_to_best=_maybe(float, data["ratio_to_best"]),
            ratio_to_limit=_maybe(float, data["ratio_to_limit"]),
            allocation=_maybe(_allocation, data["allocation"]),
            data_ptr_differs=_maybe(bool, data["data_ptr_differs"]),
            memory=memory,
            warnings=tuple(str(line) for line in data["warnings"]),
            error=_maybe(str, data["error"]),
            skipped=_maybe(str, data["skipped"]),
        )


@dataclasses.dataclass(frozen=True)
class BenchReport:
    """What one bench measured, and where.

    Attributes:
        kind: tensors built to order, tensors of the caller's, or a model.
        subject: what was copied, in words: `tensors`, a factory's name, a module's class.
        machine: versions and hardware.
        device: where.
        dtype: as what; several names for a model of several.
        sources: the sources, in order.
        sizes: the numbers of elements asked for, smallest first.
        methods: ids of the methods, in order.
        limits: the limit of the memory, for each source and size that was timed.
        measurements: a record for each method, source and size, those left out included.
        max_seconds: the time that was allowed.
        seconds: the time that was spent.
        others_share: share of all processors' time that other programs used meanwhile; None where it is not told.
    """

    kind: BenchKind
    subject: str
    machine: Machine
    device: str
    dtype: str
    sources: tuple[str, ...]
    sizes: tuple[int, ...]
    methods: tuple[str, ...]
    limits: tuple[Limit, ...]
    measurements: tuple[Measurement, ...]
    max_seconds: float
    seconds: float
    others_share: float | None = None

    @property
    def left_out(self) -> tuple[Measurement, ...]:
        """What was asked for and not timed, each with its reason in `skipped`."""
        return tuple(m for m in self.measurements if m.skipped is not None)

    def limit(self, source: str, numel: int) -> Limit | None:
        """The limit for one source and size; None where it was not timed."""
        return next((one for one in self.limits if (one.source, one.numel) == (source, numel)), None)

    def of(self, *, method: str | None = None, source: str | None = None) -> tuple[Measurement, ...]:
        """The measurements of one method, one source, or both, by size."""
        chosen = (m for m in self.measurements if method in (None, m.method) and source in (None, m.source))
        return tuple(sorted(chosen, key=lambda m: m.numel))

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, ready for JSON; `from_dict` reads it back."""
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "kind": self.kind,
            "subject": self.subject,
            "machine": self.machine.to_dict(),
            "device": self.device,
            "dtype": self.dtype,
            "sources": list(self.sources),
            "sizes": list(self.sizes),
            "methods": list(self.methods),
            "max_seconds": self.max_seconds,
            "seconds": self.seconds,
            "others_share": self.others_share,
            "ratio_to_best": "time over the time of the fastest method that makes a copy; 1 is the best",
            "ratio_to_limit": "time of the limit (a warm copy_) over the time; 1 is the speed of the memory",
            "limits": [limit.to_dict() for limit in self.limits],
            "measurements": [measurement.to_dict() for measurement in self.measurements],
        }

    @classmethod
    def from_dict(cls, data: Any) -> BenchReport:
        """The report that `to_dict` wrote.

        Raises:
            InputError: the data is something else, or of another version.
        """
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            raise InputError("it is not a result of `torchcopy bench`: give a file that `--json FILE` wrote")
        version = data.get("schema_version")
        if version != SCHEMA_VERSION:
            raise InputError(f"it has format {version!r}, this torchcopy reads {SCHEMA_VERSION}: measure it again")
        try:
            return cls._read(data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            detail = f"{type(error).__name__}: {error}"
            raise InputError(f"it is a damaged result of `torchcopy bench` ({detail}): measure it again") from error

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> BenchReport:
        if data["kind"] not in get_args(BenchKind):
            raise ValueError(f"kind {data['kind']!r}")
        return cls(
            kind=data["kind"],
            subject=str(data["subject"]),
            machine=_machine(data["machine"]),
            device=str(data["device"]),
            dtype=str(data["dtype"]),
            sources=_tuple(str, data["sources"]),
            sizes=_tuple(int, data["sizes"]),
            methods=_tuple(str, data["methods"]),
            limits=_tuple(Limit.from_dict, data["limits"]),
            measurements=_tuple(Measurement.from_dict, data["measurements"]),
            max_seconds=float(data["max_seconds"]),
            seconds=float(data["seconds"]),
            others_share=_maybe(float, data["others_share"]),
        )


def with_ratios(measurements: Iterable[Measurement], limits: Iterable[Limit]) -> tuple[Measurement, ...]:
    """The measurements with `ratio_to_best` and `ratio_to_limit` filled in, for those that made a copy."""
    measured = tuple(measurements)
    limit_seconds = {(limit.source, limit.numel): limit.timing.median_seconds for limit in limits}
    best: dict[tuple[str, int], float] = {}
    for m in measured:
        if m.is_copy and m.timing is not None:
            place = m.source, m.numel
            best[place] = min(best.get(place, m.timing.median_seconds), m.timing.median_seconds)

    def fill(m: Measurement) -> Measurement:
        if not m.is_copy or m.timing is None:
            return m
        place, seconds = (m.source, m.numel), m.timing.median_seconds
        limit = limit_seconds.get(place)
        to_limit = None if limit is None else limit / seconds
        return dataclasses.replace(m, ratio_to_best=seconds / best[place], ratio_to_limit=to_limit)

    return tuple(fill(m) for m in measured)


# --- reading back --------------------------------------------------------------------------------------------


def _maybe(read: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else read(value)


def _tuple(read: Callable[[Any], T], values: Any) -> tuple[T, ...]:
    if not isinstance(values, list):
        raise TypeError(f"a list was expected, not {type(values).__name__}")
    return tuple(read(value) for value in values)


def _timing(data: Mapping[str, Any]) -> Timing:
    low, median, high = (float(data[key]) for key in ("low_seconds", "median_seconds", "high_seconds"))
    if not 0 < low <= median <= high:
        raise ValueError(f"the times {low}, {median}, {high} are not positive and in order")
    return Timing(median, low, high, int(data["runs"]))


def _allocation(data: Mapping[str, Any]) -> Allocation:
    return Allocation(int(data["allocated_bytes"]), int(data["peak_bytes"]), int(data["kept_bytes"]))


def _machine(data: Mapping[str, Any]) -> Machine:
    return Machine(**{**data, "gpus": tuple(Gpu(**gpu) for gpu in data["gpus"])})
