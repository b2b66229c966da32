"""What a snapshot is known by: numbers, strings, None."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from torch import Tensor

from .._errors import InputError

_PLAIN: Final[dict[type, Callable[[Any], Any]]] = {int: int.__int__, float: float.__float__, str: str.__str__}


def checked_label(name: str, value: Any) -> Any:
    """The label as a value that can be kept and saved.

    Raises:
        InputError: it is none.
    """
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        size = value.numel() if isinstance(value, Tensor) else value.size
        if size != 1:
            raise InputError(f"`{name}` must be a number, a string or None; got one with {size} elements")
        if isinstance(value, Tensor) and value.is_meta:
            raise InputError(f"`{name}` must be a number, a string or None; got a meta tensor, which has no value")
        value = value.item()
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise InputError(
            f"`{name}` must be a number that a float can hold; got an int of {value.bit_length()} bits"
        )
    if value is None or type(value) is bool:
        return value
    for plain in (int, float, str):
        if isinstance(value, plain):  # members of an IntEnum, and whatever else a file has no name for
            return value if type(value) is plain else _PLAIN[plain](value)
    if isinstance(value, numbers.Real):
        try:
            return float(value)
        except OverflowError:
            raise InputError(f"`{name}` must be a number that a float can hold; got a larger one") from None
    shown = " ".join(repr(value).split())
    raise InputError(f"`{name}` must be a number, a string or None; got {type(value).__name__}: {shown[:200]}")
