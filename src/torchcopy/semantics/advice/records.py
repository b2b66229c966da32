"""What advice is asked with and what it answers: frozen records."""

from __future__ import annotations

import dataclasses
import operator
import warnings
from collections.abc import Callable
from typing import Any, Literal, get_args

from ..._errors import InputError
from ..._tensors import dtype_name
from ..sources import device_named, parse_dtype
from ..timing import Timing, time_call

Graph = Literal["detach", "keep"]
Memory = Literal["own", "share", "lazy"]

_TIMING_SECONDS = 0.05


@dataclasses.dataclass(frozen=True)
class Needs:
    """What a copy has to be.

    Raises `InputError` where an answer is none of the possible ones, or two contradict each other.

    Attributes:
        graph: `"detach"`, or `"keep"` where gradients have to flow back to the source.
        memory: `"own"` bytes, `"share"` those of the source, or `"lazy"`: share until somebody writes.
        device: where the copy has to be; None for where the source is.
        dtype: as what; None for the source's.
        numel: number of elements the timings are taken with.
        nested: whether it is a model, a state_dict or a container rather than one tensor.
        hot_loop: whether it happens again and again with the same shapes.
    """

    graph: Graph = "detach"
    memory: Memory = "own"
    device: str | None = None
    dtype: str | None = None
    numel: int = 2**20
    nested: bool = False
    hot_loop: bool = False

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("graph", self.graph, get_args(Graph)),
            ("memory", self.memory, get_args(Memory)),
        ):
            if value not in choices:
                raise InputError(f"`{name}` must be one of {', '.join(map(repr, choices))}; got {value!r}")
        if not hasattr(self.numel, "__index__") or isinstance(self.numel, bool) or operator.index(self.numel) < 1:
            raise InputError(f"`numel` must be a whole number of elements, at least 1; got {self.numel!r}")
        object.__setattr__(self, "numel", operator.index(self.numel))
        # Kept in one spelling, and refused here if they are none.
        object.__setattr__(self, "device", None if self.device is None else str(device_named(self.device)))
        object.__setattr__(self, "dtype", None if self.dtype is None else dtype_name(parse_dtype(self.dtype)))
        if self.memory != "own" and (self.device or self.dtype):
            raise InputError(
                f"memory={self.memory!r} cannot be had together with a device or a dtype: converted bytes are new "
                "bytes. Use memory='own', or leave the conversion out"
            )
        if self.nested and (self.device or self.dtype):
            raise InputError(
                "nested=True cannot be had together with a device or a dtype: copy first, then `.to(…)` the copy"
            )


@dataclasses.dataclass(frozen=True)
class TimedChoice:
    """One expression that does what is needed, and what it costs here.

    Attributes:
        code: the expression.
        timing: its time on a source of `Needs.numel` elements.
        ratio: its median time over that of the recommended expression.
    """

    code: str
    timing: Timing
    ratio: float

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Warned:
    """An expression to avoid here.

    Attributes:
        code: the expression.
        reason: why.
    """

    code: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Advice:
    """The expression to write.

    Attributes:
        needs: what was asked for.
        expression: what to write, `t` being the tensor and `model` the module.
        setup: what to write once before, or "".
        why: why it is the right one.
        notes: what to know about it.
        avoid: what not to write instead.
        timings: the recommended expression first, then others that do the same (for `"lazy"`, the copy that is made
            at once), measured just now.
        measured_on: what the timings were taken on, in words.
    """

    needs: Needs
    expression: str
    setup: str
    why: str
    notes: tuple[str, ...]
    avoid: tuple[Warned, ...]
    timings: tuple[TimedChoice, ...]
    measured_on: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return {
            **{f.name: getattr(self, f.name) for f in dataclasses.fields(self)},
            "needs": dataclasses.asdict(self.needs),
            "notes": list(self.notes),
            "avoid": [warned.to_dict() for warned in self.avoid],
            "timings": [choice.to_dict() for choice in self.timings],
        }

    def __str__(self) -> str:
        """The expression and why."""
        return (
            f"{self.setup}; {self.expression}  # {self.why}" if self.setup else f"{self.expression}  # {self.why}"
        )


def timed(calls: dict[str, Callable[[], object]]) -> tuple[TimedChoice, ...]:
    """Times the calls; ratios are to the first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        timings = {code: time_call(call, min_seconds=_TIMING_SECONDS) for code, call in calls.items()}
    first = next(iter(timings.values())).median_seconds
    return tuple(TimedChoice(code, timing, timing.median_seconds / first) for code, timing in timings.items())
