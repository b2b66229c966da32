"""Many tensors copied, interpolated or cloned in one call, where torch can."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from .self_checks import works


def foreach_copy_(targets: Sequence[Tensor], sources: Sequence[Tensor], *, non_blocking: bool = False) -> None:
    """Copies `sources[i]` into `targets[i]` for all i, in one call where torch can."""

    def together() -> None:
        torch._foreach_copy_(list(targets), list(sources), non_blocking=non_blocking)

    if _in_one_call("torch._foreach_copy_", together, targets):
        return
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source, non_blocking=non_blocking)


def foreach_lerp_(targets: Sequence[Tensor], ends: Sequence[Tensor], weight: float) -> None:
    """`targets[i].lerp_(ends[i], weight)` for all i, in one call where torch can."""

    def together() -> None:
        torch._foreach_lerp_(list(targets), list(ends), weight)

    if _in_one_call("torch._foreach_lerp_", together, targets):
        return
    for target, end in zip(targets, ends, strict=True):
        target.lerp_(end, weight)


def _in_one_call(name: str, call: Callable[[], None], targets: Sequence[Tensor]) -> bool:
    """Makes the call, if torch can; False where each target is to be written by itself."""
    if not (targets and works(name)):
        return False
    try:
        call()
    except RuntimeError:
        if not _refuses_lists_with(targets):
            raise
        return False
    return True


def _refuses_lists_with(targets: Iterable[Tensor]) -> bool:
    """Whether PyTorch writes to no list with these: conjugate and negative views. It says so before it writes."""
    return any(t.is_conj() or t.is_neg() for t in targets)


def foreach_clone(sources: Sequence[Tensor]) -> list[Tensor]:
    """A clone of each source, in one call where torch can."""
    if works("torch._foreach_clone"):
        try:
            return list(torch._foreach_clone(list(sources)))
        except NotImplementedError:  # one of them has a layout that it does not know
            pass
    return [t.clone() for t in sources]
