"""What moved between two states, as records."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, TypeVar

from ..._errors import InputError

_SHOWN = 10
_NAME_WIDTH = 30


@dataclasses.dataclass(frozen=True)
class Moved:
    """How far some elements moved from a to b; `tc.compare` says what counts.

    Attributes:
        name: of the tensor or module; empty for the whole.
        numel: how many elements there are.
        l2: root of the sum of the squares of the differences; infinite where an element became or ceased to be NaN
            or infinite.
        max_abs: the largest difference; infinite likewise.
        relative: `l2` over the L2 norm of a; infinite where only that is 0.
        cosine: of the angle between a and b; 1 where all elements are equal, None where there is no angle.
        changed: the share of the elements that differ, from 0 to 1.
    """

    name: str
    numel: int
    l2: float
    max_abs: float
    relative: float
    cosine: float | None
    changed: float

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON: None stands for infinity."""
        return {name: _for_json(value) for name, value in dataclasses.asdict(self).items()}


M = TypeVar("M", bound=Moved)


@dataclasses.dataclass(frozen=True)
class TensorMoved(Moved):
    """How far a tensor moved.

    Attributes:
        shape: its shape.
        dtype: its dtype; `float32 → bfloat16` where the two sides differ.
    """

    shape: tuple[int, ...]
    dtype: str


@dataclasses.dataclass(frozen=True)
class ModuleMoved(Moved):
    """How far the tensors of a module moved together, those of its submodules included; shared ones count once.

    Attributes:
        tensors: how many these are.
    """

    tensors: int


@dataclasses.dataclass(frozen=True)
class NotCompared:
    """A tensor that could not be compared.

    Attributes:
        name: its name.
        a: what is in a, as `float32[2, 3] cpu`; None if nothing is.
        b: what is in b.
        why: the reason.
    """

    name: str
    a: str | None
    b: str | None
    why: str

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What moved from a to b.

    Attributes:
        a: what the first state was read from, in a few words.
        b: the second.
        tensors: each tensor that both have, the one that moved most first: by `relative`, then by `l2`.
        modules: each module with what is below it, the whole, named "", first; others in the order of the state.
        not_compared: what only one side has, what has other shapes, and what has no values to compare.
    """

    a: str
    b: str
    tensors: tuple[TensorMoved, ...]
    modules: tuple[ModuleMoved, ...]
    not_compared: tuple[NotCompared, ...] = ()

    @property
    def whole(self) -> ModuleMoved:
        """All that was compared, together."""
        return self.modules[0]

    def tensor(self, name: str) -> TensorMoved:
        """The tensor of this name.

        Raises:
            InputError: there is none that was compared.
        """
        for each in self.not_compared:
            if each.name == name:
                raise InputError(f"{name!r} was not compared: {each.why}")
        return _named(self.tensors, name, "tensor")

    def module(self, name: str) -> ModuleMoved:
        """The module of this name; "" for the whole.

        Raises:
            InputError: there is none.
        """
        return _named(self.modules, name, "module")

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON: None stands for infinity."""
        return {
            "a": self.a,
            "b": self.b,
            "tensors": [each.to_dict() for each in self.tensors],
            "modules": [each.to_dict() for each in self.modules],
            "not_compared": [each.to_dict() for each in self.not_compared],
        }

    def __str__(self) -> str:
        moved = [each for each in self.tensors if each.changed]
        lines = [f"from {self.a} to {self.b}", f"{len(moved)} of {len(self.tensors)} tensors moved"]
        if moved:
            lines[1] += f", relative {self.whole.relative:.3g}, L2 {self.whole.l2:.3g}"
            head = (f"{'tensor':<{_NAME_WIDTH}}", "elements", "relative", "L2", "max", "changed")
            lines.append(_row(*head))
            lines += [_row(*_cells(each)) for each in moved[:_SHOWN]]
            if len(moved) > _SHOWN:
                lines.append(f"… and {len(moved) - _SHOWN} more")
        if self.not_compared:
            lines.append("not compared:")
            lines += [f"  {each.name}: {each.why}" for each in self.not_compared[:_SHOWN]]
            if len(self.not_compared) > _SHOWN:
                lines.append(f"  … and {len(self.not_compared) - _SHOWN} more")
        return "\n".join(lines)


def _row(name: str, *cells: str) -> str:
    return f"{name} " + " ".join(f"{cell:>9}" for cell in cells)


def _cells(each: TensorMoved) -> tuple[str, ...]:
    name = each.name
    if len(name) > _NAME_WIDTH:  # its end tells more
        name = "…" + name[1 - _NAME_WIDTH :]
    numbers = (f"{x:.3g}" for x in (each.relative, each.l2, each.max_abs))
    return f"{name:<{_NAME_WIDTH}}", str(each.numel), *numbers, f"{each.changed:.2%}"


def _named(records: Iterable[M], name: str, kind: str) -> M:
    there = []
    for each in records:
        if each.name == name:
            return each
        there.append(repr(each.name))
    listed = ", ".join(there[:_SHOWN]) + (", …" if len(there) > _SHOWN else "")
    raise InputError(f"there is no {kind} {name!r}: there are {listed or 'none'}")


def _for_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value
