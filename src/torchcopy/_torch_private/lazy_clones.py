"""Copy-on-write clones.

Copy-on-write in PyTorch lives in `c10/core/impl/COW.cpp`; nothing of it is public API as of torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from .self_checks import works

_C: Any = torch._C


def copy_on_write_works() -> bool:
    """Whether lazy clones can be made and watched, which is what they need to be safe across threads."""
    names = ("torch._lazy_clone", "torch._C._data_address", "torch.UntypedStorage._weak_ref")
    return all(map(works, names))


def is_lazy(t: Tensor) -> bool:
    """Whether `t`'s storage is copy-on-write: shared with a lazy clone until somebody writes."""
    try:
        return works("torch._lazy_clone") and bool(_C._is_cow_tensor(t))
    except RuntimeError:  # layouts without a storage
        return False


def are_lazy(tensors: Iterable[Tensor]) -> list[bool]:
    """`is_lazy` of each tensor, all of them with a storage."""
    return list(map(_C._is_cow_tensor if works("torch._lazy_clone") else is_lazy, tensors))


def lazy_clone(t: Tensor) -> Tensor:
    """A copy-on-write clone of `t`, or an eager `clone()` where torch cannot make one.

    Torch refuses storages that it does not own, such as those of `torch.from_numpy`.
    """
    if works("torch._lazy_clone"):
        try:
            return strict_lazy_clone(t)
        except RuntimeError:
            pass
    return t.clone()


def strict_lazy_clone(t: Tensor) -> Tensor:
    """`torch._lazy_clone(t)` as it is, with the errors it raises."""
    lazy: Tensor = torch._lazy_clone(t)
    return lazy


def strict_lazy_clones(tensors: Sequence[Tensor]) -> list[Tensor]:
    """`torch._lazy_clone` of each tensor, with the errors it raises."""
    return list(map(torch._lazy_clone, tensors))
