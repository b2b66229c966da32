"""One target and one source, looked at closely: how the one can be written from the other, or why it cannot."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ... import _torch_private
from ..._tensors import lacks_memory
from .dtype_rules import CONVERTED, QUANTIZED, integer_of

PairKind = Literal["strided", "odd", "arrays"]
"""Written in one call with many others; alone, from a spare that shows that it can be; by NumPy."""


@dataclasses.dataclass(frozen=True)
class Writing:
    """What tells one way to write from another, where it matters before anything is written.

    Attributes:
        call: the function that the user called, as errors name it.
        dtype_fault: what is wrong with a target and a source of these dtypes; empty if nothing.
        spare: for an odd target and its source, a new tensor of what the target is to hold.
    """

    call: str
    dtype_fault: Callable[[torch.dtype, torch.dtype], str]
    spare: Callable[[Any, Any], Any]

    def suits(self, d: torch.dtype, s: torch.dtype) -> bool:
        """Whether strided tensors of these dtypes can be written as they are."""
        return d in CONVERTED and s in CONVERTED and not self.dtype_fault(d, s)


class PairFaultError(Exception):
    """A pair that cannot be written; the message is what to do about it."""


def repeats_bytes(t: Tensor) -> bool:
    """Whether a dimension of `t` is expanded, so that PyTorch refuses to write to it."""
    return any(stride == 0 and size > 1 for size, stride in zip(t.shape, t.stride(), strict=True))


def sort_pair(d: Any, s: Any, writing: Writing) -> tuple[PairKind, Any, Any]:
    """How to write `d` from `s`, and what to write from what: arrays are given as tensors where they can be.

    Raises:
        PairFaultError: it cannot be written.
    """
    if isinstance(d, np.ndarray) or isinstance(s, np.ndarray):
        _check_arrays(d, s)
        one = _as_tensor(d)
        other = _as_tensor(s)
        if other is None:  # of a source a copy will do
            other = _as_tensor(s.astype(s.dtype.newbyteorder("="), order="C"))
        if one is None:
            return "arrays", d, _as_array(s, d.dtype)
        if other is None:
            if not isinstance(d, np.ndarray):
                raise PairFaultError("PyTorch has no such dtype: convert the array with `.astype` first")
            return "arrays", d, s
        d, s = one, other
    _check_shapes(d, s)
    if not (_is_strided(d) and _is_strided(s)):
        return "odd", d, _spare(d, s, writing)
    _check_memory(d, s)
    fault = writing.dtype_fault(d.dtype, s.dtype)
    if fault:
        raise PairFaultError(fault)
    if d.dtype not in CONVERTED:
        d, s = (t.detach().view(integer_of(t.dtype)) for t in (d, s))
    return "strided", d, s


def _check_shapes(d: Tensor, s: Tensor) -> None:
    if is_lazy(d) or is_lazy(s):
        raise PairFaultError("an uninitialised parameter has no shape: run the lazy module once first")
    if d.is_nested or s.is_nested:
        return  # these have no shape; the spare tells
    if d.shape != s.shape:
        raise PairFaultError("both have to be of one shape")
    if d.is_meta is not s.is_meta:
        raise PairFaultError("a meta tensor holds no values: make it with `torch.empty_like(t, device=…)` first")


def _check_memory(d: Tensor, s: Tensor) -> None:
    if repeats_bytes(d):
        raise PairFaultError("dst is expanded, and has one element in several places: give it `.contiguous()`")
    for t in (d, s):
        if lacks_memory(t):
            raise PairFaultError(
                "its storage was freed (`untyped_storage().resize_`): give it its memory back first"
            )


def _is_strided(t: Tensor) -> bool:
    cls: Any = type(t)
    plain = cls in (Tensor, nn.Parameter) or (
        cls.__torch_dispatch__ is Tensor.__torch_dispatch__
        and (
            cls.__torch_function__ is nn.Parameter.__torch_function__
            or getattr(cls.__torch_function__, "__func__", None) is _default_torch_function
        )
    )
    if not plain or _torch_private.is_functorch_wrapper(t):
        return False
    return t.layout is torch.strided and not t.is_nested and t.dtype not in QUANTIZED


_default_torch_function: Any = getattr(Tensor.__torch_function__, "__func__", None)


def _spare(d: Tensor, s: Tensor, writing: Writing) -> Tensor:
    """What `d` is to hold. Made before anything is written: it shows that PyTorch can."""
    try:
        with torch.no_grad():
            spare: Tensor = writing.spare(d, s)
    except Exception as error:  # a subclass may raise anything; nothing has been written yet
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise PairFaultError(f"PyTorch does not write the one into the other ({reason[:200]})") from error
    return spare


def odd_alike(a: Any, b: Any) -> bool:
    """Whether two sources of one odd target hold the same values; False too where PyTorch cannot tell."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    if not (isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype == b.dtype and a.device == b.device):
        return False
    try:
        with torch.no_grad():
            one, other = (t if t.layout is torch.strided else t.to_dense() for t in (a, b))
            return one.shape == other.shape and bool(torch.equal(one, other))
    except Exception:  # noqa: BLE001  # a subclass may raise anything
        return False


# --- NumPy arrays --------------------------------------------------------------------------------------------


def _check_arrays(d: Any, s: Any) -> None:
    for x in (d, s):
        if isinstance(x, np.ma.MaskedArray):
            raise PairFaultError("a masked array is two arrays: give its `.data` and `.mask`")
        if isinstance(x, np.ndarray) and x.dtype.hasobject:
            raise PairFaultError("an array of objects would share them: give arrays of numbers")
    if d.shape != s.shape:
        raise PairFaultError("both have to be of one shape")
    if isinstance(d, np.ndarray):
        if not d.flags.writeable:
            raise PairFaultError("the array is read-only: give a copy of it")
        if isinstance(s, np.ndarray):
            _check_cast(s.dtype, d.dtype)


def _as_tensor(x: Any) -> Tensor | None:
    """The array as a tensor on the same memory; None where PyTorch has no such dtype, byte order or stride."""
    if isinstance(x, Tensor):
        return x
    try:
        return torch.from_numpy(x if x.flags.writeable else x.copy())
    except (TypeError, ValueError):
        return None


def _as_array(s: Any, dtype: Any) -> Any:
    """The source as an array that NumPy casts to `dtype`."""
    if isinstance(s, Tensor) and dtype.kind not in "biufc":
        raise PairFaultError("an array of these takes no tensor: give an array of the same dtype")
    try:
        array = s.numpy(force=True) if isinstance(s, Tensor) else s
    except (TypeError, RuntimeError) as error:
        raise PairFaultError("NumPy has no such tensor: convert it with `.to` first") from error
    _check_cast(array.dtype, dtype)
    return array


def _check_cast(s: Any, d: Any) -> None:
    if not np.can_cast(s, d, "same_kind"):
        raise PairFaultError(f"NumPy does not cast {s} to {d}: use `.astype` where it is meant")
