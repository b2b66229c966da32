"""Tensors that do not consist of one strided storage: sparse, nested, quantized, mkldnn, transformed ones."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ... import _torch_private
from ..._tensors import dtype_name
from ..refusals import HasNoSuchKind, check_have_values

if TYPE_CHECKING:
    from ..request import Request


def is_opaque(t: Tensor) -> bool:
    """Whether `t` is copied by its own `clone`, as there is no one storage to copy."""
    return (
        t.layout != torch.strided
        or t.is_nested
        or t.is_quantized
        or _torch_private.is_functorch_wrapper(t)
        or not torch._C._has_storage(t)
    )


def copy_opaque(t: Tensor, request: Request) -> Tensor:
    """A copy of `t` with a memory of its own, its layout kept; also where another kind of memory was asked for."""
    detached = t.detach() if request.graph == "detach" else t
    return place_alone(detached, request)


def check_can_be_placed(sources: Iterable[Tensor], request: Request) -> None:
    """Whether all sources can be where and as the request wants them.

    Raises:
        HasNoValues: one is on the meta device, and the copy is to be elsewhere.
        HasNoSuchKind: PyTorch has none of its kind there, or of that dtype.
    """
    if request.device is None and request.dtype is None:
        return
    check_have_values(sources, request.device)
    for t in sources:
        if request.device is not None and request.device.type == "meta" and not t.is_meta:
            _check_has_meta(t)
        if request.dtype not in (None, t.dtype) and t.is_floating_point():
            _check_converts(t, request.dtype)


def _check_has_meta(t: Tensor) -> None:
    if t.is_quantized:
        raise HasNoSuchKind(
            t, "quantized, and PyTorch has no quantized tensors on the meta device: `dequantize()` it"
        )
    if t.is_nested and t.layout == torch.strided:
        raise HasNoSuchKind(
            t, "nested, and of these the meta device has only those with `layout=torch.jagged`: make it one"
        )
    if t.is_mkldnn:
        raise HasNoSuchKind(t, "mkldnn, and PyTorch has no mkldnn tensors on the meta device: use its `to_dense()`")


def _check_converts(t: Tensor, dtype: torch.dtype) -> None:
    if t.is_mkldnn and dtype not in _MKLDNN_DTYPES:
        names = ", ".join(map(dtype_name, _MKLDNN_DTYPES))
        raise HasNoSuchKind(t, f"mkldnn, and such tensors are {names} only: use its `to_dense()`")
    if _NO_ARITHMETIC & {t.dtype, dtype}:
        raise HasNoSuchKind(
            t, f"{dtype_name(t.dtype)}, and PyTorch cannot convert that to {dtype_name(dtype)}: unpack it yourself"
        )


def place_alone(t: Tensor, request: Request) -> Tensor:
    """A copy of `t` where and as the request wants it, by `t`'s own methods."""
    check_can_be_placed((t,), request)
    if _is_only_held(t.dtype):
        return place_alone(t.view(torch.uint8), request).view(t.dtype)
    dtype = request.dtype if request.dtype is not None and t.is_floating_point() else None
    if (dtype is None or dtype == t.dtype) and request.device in (None, t.device):
        copied = clone(t)
    elif t.is_mkldnn and request.device in (None, t.device):
        copied = t.to_dense(dtype).to_mkldnn()
    else:
        copied = t.to(device=request.device, dtype=dtype, copy=True)
    if request.memory_format is not torch.preserve_format and t.layout == torch.strided and not t.is_nested:
        copied = copied.contiguous(memory_format=request.memory_format)
    return copied.pin_memory() if request.pin_memory else copied


def clone(t: Tensor) -> Tensor:
    """`t.clone()`, also where PyTorch has none."""
    if t.is_quantized and _scheme(t) not in (torch.per_tensor_affine, torch.per_channel_affine):
        copied = torch.empty_quantized(t.shape, t)  # `clone` does not know the other schemes
        copied.untyped_storage().copy_(t.untyped_storage())
        return copied
    return t.clone()


def _scheme(t: Tensor) -> torch.qscheme:
    try:
        return t.qscheme()
    except RuntimeError:
        raise HasNoSuchKind(
            t,
            "a quantized tensor without a quantizer, which PyTorch cannot read: make it by "
            "`torch.quantize_per_tensor` or the like",
        ) from None


# --- tensors that PyTorch can hold, and not compute with ------------------------------------------------------


def byte_views(sources: Sequence[Tensor]) -> list[Tensor] | None:
    """The sources, with integers of the same size in place of what PyTorch cannot copy; None if it can copy all.

    It has dtypes of less than a byte (`torch.int4`, `torch.float4_e2m1fn_x2`) for others to compute with.
    """
    views = [t.view(torch.uint8) if _is_only_held(t.dtype) else t for t in sources]
    return None if all(view is t for view, t in zip(views, sources, strict=True)) else views


@functools.cache
def _is_only_held(dtype: torch.dtype) -> bool:
    if dtype.itemsize != 1:
        return False
    try:
        with _torch_private.outside_modes():  # the answer is kept, and fake tensors can do what real ones cannot
            torch.zeros(4, dtype=torch.uint8).view(dtype)[::2].clone()
    except NotImplementedError:
        return True
    except RuntimeError:  # it takes a quantizer
        return False
    return False


_MKLDNN_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_NO_ARITHMETIC = frozenset({getattr(torch, "float4_e2m1fn_x2", None)}) - {None}
