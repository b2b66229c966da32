"""What a snapshot is known by: numbers, strings, None."""

from __future__ import annotations

import numbers
import sys
from typing import Any

import numpy as np
from torch import Tensor

from .._errors import InputError


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
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, numbers.Real):
        return float(value)
    shown = " ".join(repr(value).split())
    raise InputError(f"`{name}` must be a number, a string or None; got {type(value).__name__}: {shown[:200]}")
