"""Values that are no tensors: which can be assigned, which are equal, and assigning all of them or none."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import types
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from .difference_wording import Path

Place = tuple[Any, str, Any]
"""Where a value can be replaced: its container, `.` for an attribute or `[]` for an item, and which."""

# Two containers can hold one of these: nobody can change it under the other.
_PLAIN_TYPES = (
    type(None), bool, int, float, complex, str, bytes, range, slice, type(Ellipsis), type, enum.Enum, np.generic,
    np.dtype, torch.dtype, torch.layout, torch.memory_format, torch.device, torch.Size, pathlib.PurePath,
    decimal.Decimal, fractions.Fraction, uuid.UUID, datetime.date, datetime.time, datetime.timedelta,
    datetime.tzinfo, types.FunctionType, types.BuiltinFunctionType,
)  # fmt: skip


def is_plain(value: object) -> bool:
    """Whether `value` is immutable all through, so that assigning it shares nothing that can change."""
    if isinstance(value, _PLAIN_TYPES):
        return True
    return isinstance(value, (tuple, frozenset)) and all(map(is_plain, value))


def same_value(a: object, b: object) -> bool:
    """Whether two plain values, or sets of some, are of one type and equal; NaN is equal to NaN."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, set):
        return all(map(is_plain, a)) and a == b
    if not is_plain(a):
        return False
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_value, a, b))
    return bool(a == b) or bool(a != a and b != b)


@dataclasses.dataclass(frozen=True, slots=True)
class NewValue:
    """A value to assign.

    Attributes:
        place: where.
        value: what.
        path: where it comes from.
    """

    place: Place
    value: object
    path: Path


@contextlib.contextmanager
def assigned(new_values: Iterable[NewValue]) -> Iterator[None]:
    """Assigns all values; where one of them is refused, or the block raises, all that were there are put back."""
    done: list[tuple[Place, object]] = []
    try:
        for new in new_values:
            before = _value_at(new.place)
            _assign(new.place, new.value)
            done.append((new.place, before))
        yield
    except BaseException:
        for place, before in reversed(done):
            _assign(place, before)
        raise


def _value_at(place: Place) -> object:
    container, style, key = place
    return container[key] if style == "[]" else getattr(container, key)


def _assign(place: Place, value: object) -> None:
    container, style, key = place
    if style == "[]":
        container[key] = value
    else:
        setattr(container, key, value)
