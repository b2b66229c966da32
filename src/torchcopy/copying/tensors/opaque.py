"""Tensors that do not consist of one strided storage: sparse, nested, quantized, mkldnn, transformed ones."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ... import _torch_private

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


def place_alone(t: Tensor, request: Request) -> Tensor:
    """A copy of `t` where and as the request wants it, by `t`'s own methods."""
    dtype = request.dtype if request.dtype is not None and t.is_floating_point() else None
    if (dtype is None or dtype == t.dtype) and request.device in (None, t.device):
        copied = clone(t)
    else:
        copied = t.to(device=request.device, dtype=dtype, copy=True)
    if request.memory_format is not torch.preserve_format and t.layout == torch.strided and not t.is_nested:
        copied = copied.contiguous(memory_format=request.memory_format)
    return copied.pin_memory() if request.pin_memory else copied


def clone(t: Tensor) -> Tensor:
    """`t.clone()`, also where PyTorch has none."""
    if t.is_quantized and t.qscheme() not in (torch.per_tensor_affine, torch.per_channel_affine):
        return copy.deepcopy(t)  # `clone` does not know the other schemes
    return t.clone()
