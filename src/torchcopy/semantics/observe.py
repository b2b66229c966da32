"""The questions the probe asks of a source and its copy, each a plain function.

`sharing` writes to both sides, which is the only proof that they share memory; the others only read.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from .. import _torch_private
from .._tensors import has_storage, same_storage

State = tuple[Tensor, int, bool]


def state(t: Tensor) -> State:
    """What the call must leave alone: values, `_version`, `requires_grad`."""
    return t.detach().clone(), t._version, t.requires_grad


def changed(before: State, after: State) -> bool:
    """Whether something of `state` is different now."""
    return before[1:] != after[1:] or not same_values(before[0], after[0])


def same_values(expected: Tensor, actual: Tensor) -> bool:
    """Same shape and values, NaN equal to NaN, compared in the widest dtype; False where they cannot be read."""
    wide = torch.complex128 if expected.dtype.is_complex or actual.dtype.is_complex else torch.float64
    if not any(t.dtype.is_floating_point or t.dtype.is_complex or t.is_quantized for t in (expected, actual)):
        wide = torch.int64
    try:
        a, b = _dense(expected).to(wide), _dense(actual).to(wide)
        if a.shape != b.shape:
            return False
        return torch.equal(a, b) if wide == torch.int64 else bool(((a == b) | (a.isnan() & b.isnan())).all())
    except RuntimeError:  # values that cannot be had (meta, nested) are not kept
        return False


def _dense(t: Tensor) -> Tensor:
    """The values as an ordinary tensor on the CPU, whatever the layout."""
    t = t.detach()
    if t.is_quantized:
        return t.dequantize()
    return t.cpu() if t.layout == torch.strided else t.to_dense()


def _memory_format(t: Tensor) -> str:
    if t.is_contiguous():
        return "contiguous"
    return "channels_last" if t.dim() == 4 and t.is_contiguous(memory_format=torch.channels_last) else "other"


def layout(source: Tensor, result: Tensor) -> dict[str, Any]:
    """Values, dtype, device, strides and memory format of the result beside the source's."""
    strided = result.layout == torch.strided
    return {
        "values_kept": same_values(source, result),
        "dtype_kept": result.dtype == source.dtype,
        "device_kept": result.device == source.device,
        "strides_kept": strided and result.stride() == source.stride(),
        "memory_format_kept": strided and _memory_format(result) == _memory_format(source),
    }


def node_name(t: Tensor) -> str | None:
    """Name of the result's node in the graph, or None for a leaf."""
    if t.grad_fn is None:
        return None
    name = getattr(t.grad_fn, "name", None)  # the node of an op that cannot be differentiated has no `name()`
    return str(name()) if callable(name) else type(t.grad_fn).__name__


def gradient(source: Tensor, result: Tensor) -> dict[str, Any]:
    """Sends known numbers into the result and looks at what arrives at the source."""
    if not (source.requires_grad and result.requires_grad):
        return {"graph": False}
    steps = torch.arange(result.numel(), device=result.device) * 37 % 61
    sent = ((steps - 30) / 7).view(result.shape).to(result.dtype)
    try:
        grads: tuple[Tensor | None, ...] = torch.autograd.grad(result, [source], sent, allow_unused=True)
    except Exception as error:  # noqa: BLE001  # a custom backward may raise anything
        # Autograd believes in a way back that cannot be walked: no gradient reaches the source.
        return {"graph": False, "gradient_error": error_line(error)}
    arrived = grads[0]
    if arrived is None:
        return {"graph": False}
    return {"graph": True, "gradient_correct": same_values(sent.to(source.dtype), arrived)}


def is_lazy_pair(source: Tensor, result: Tensor) -> bool:
    """Whether both sides share their bytes copy-on-write."""
    if not (_torch_private.is_lazy(source) and _torch_private.is_lazy(result)):
        return False
    return not same_storage(source, result)


def sharing(source: Tensor, result: Tensor) -> dict[str, Any]:
    """Writes one element of the result, then one of the source, and looks at the other side each time."""
    if source.numel() == 0 or result.numel() == 0:
        shares = has_storage(result) and same_storage(source, result)
        return {"shares_memory": shares, "shares_version_counter": None}
    version = None if source.is_inference() else source._version
    with torch.no_grad():
        try:
            reached = _write_reaches(result, source)
            moved = None if version is None else source._version != version
            reached = _write_reaches(source, result) or reached
        except RuntimeError:  # a result that must not be written (an inference tensor, a read-only array)
            return {"shares_memory": has_storage(result) and same_storage(source, result)}
    return {"shares_memory": reached, "shares_version_counter": moved}


def _write_reaches(written: Tensor, watched: Tensor) -> bool:
    before = watched.detach().clone()
    element = written.detach()[(0,) * written.dim()]
    if written.dtype == torch.bool:
        element.copy_(~element)
    else:
        # One or two: whichever is not there yet, in dtypes of any range.
        element.fill_(2 if bool(element.to(torch.complex64) == 1) else 1)
    return not same_values(before, watched)


def error_line(error: BaseException) -> str:
    """An exception in one line: its type and the first line of its message."""
    try:
        lines = str(error).strip().splitlines() or [""]
    except Exception:  # noqa: BLE001  # a user's exception whose own message raises
        lines = [""]
    return f"{type(error).__name__}: {lines[0].strip()}".removesuffix(": ")


def warning_texts(caught: list[warnings.WarningMessage]) -> tuple[str, ...]:
    """The warnings, each once, without PyTorch's note on where in its source it comes from."""
    texts = (f"{w.category.__name__}: {str(w.message).split('(Triggered internally')[0].strip()}" for w in caught)
    return tuple(dict.fromkeys(texts))
