"""Lazy clones: tensors that share their source's bytes until one of the two is written."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import torch
from torch import Tensor

from ... import _torch_private
from .anchors import pool

_PLAIN = frozenset({Tensor, torch.nn.Parameter})
_is_quantized = attrgetter("is_quantized")


def lazy_clones(sources: Sequence[Tensor], count: int = 1) -> list[list[Tensor | None]]:
    """Makes `count` copy-on-write clones of each source.

    Storage is shared until the first write to either side, which copies it for the side that is written. The
    graph is not kept: the clones are plain tensors that need no gradient, with the source's shape, strides, offset
    and dtype. Nothing synchronises. The sources keep their values and versions, but their storages become
    copy-on-write: their bytes move at the next write.

    The source and its clones may then be read, written and dropped on any threads, each as a tensor of its own.
    What a thread may not do is write a source *while* it is cloned, just as it may not while it is copied.
    A raw pointer taken before the call, such as an older `numpy()` view or DLPack capsule, goes on to write into
    the source and all clones. And PyTorch cannot resize the storage of a lazy tensor; write to it before that.

    Args:
        sources: tensors with a storage each. Views of one storage get storages of their own, one by one.
        count: how many clones of each.

    Returns:
        `count` lists, each as long as `sources`: `clones[k][i]` is the k-th clone of `sources[i]`. It is None for
        each k where copy-on-write cannot be had for that source, and the caller copies it: storages that PyTorch
        does not own (`torch.from_numpy`, shared or mapped memory) or that are empty, tensors without a plain
        storage (sparse, quantized, nested, meta, most subclasses), and views that conjugate or negate. And for all
        while a graph is made of what is called, which would not see it.
    """
    if not (sources and _torch_private.copy_on_write_works()) or _torch_private.is_traced():
        return [[None] * len(sources) for _ in range(count)]
    if _torch_private.in_dispatch_mode():
        with _torch_private.outside_modes():
            return lazy_clones(sources, count)
    # PyTorch swaps the source's data pointer without a lock when it makes the first lazy clone (`COW.cpp`,
    # `lazy_clone_storage`), so all of them are made under one.
    with _torch_private.below_autograd(), pool.lock:
        outer, pool.busy = pool.busy, True
        try:
            return _in_halves(sources, count)
        finally:
            pool.busy = outer
            pool.watch()


def _in_halves(sources: Sequence[Tensor], count: int) -> list[list[Tensor | None]]:
    """All at once where that works, else the two halves: a misfit among many costs the others next to nothing."""
    clones = _at_once(sources, count)
    if clones is not None:
        return clones
    if len(sources) == 1:
        return [[None] for _ in range(count)]
    middle = len(sources) // 2
    halves = _in_halves(sources[:middle], count), _in_halves(sources[middle:], count)
    return [left + right for left, right in zip(*halves, strict=True)]


def _at_once(sources: Sequence[Tensor], count: int) -> list[list[Tensor | None]] | None:
    """The clones, with anchors held for them; None where one of the sources does not fit.

    What was cloned before the misfit was found is dropped here, before another thread has seen it.
    """
    if not (_PLAIN.issuperset(map(type, sources)) or all(map(_has_plain_type, sources))):
        return None
    if any(map(_is_quantized, sources)):
        return None
    try:
        addresses = _torch_private.storage_addresses(sources)
        known = pool.table.known(addresses)
        if True not in known:
            new, new_addresses = sources, addresses
        else:
            new = [t for t, k in zip(sources, known, strict=True) if not k] if False in known else []
            new_addresses = [a for a, k in zip(addresses, known, strict=True) if not k] if new else []
        anchors = dict(zip(new_addresses, _torch_private.strict_lazy_clones(new), strict=True))
        if len(anchors) < len(new) or 0 in anchors:  # two share their bytes, or one has none
            return None
        clones = [_torch_private.strict_lazy_clones(sources) for _ in range(count)]
        # Somewhere else are those of views that conjugate or negate, which PyTorch resolves first, and those
        # that a newer PyTorch copied at once, as it does on another CUDA stream.
        if clones and _torch_private.storage_addresses(clones[0]) != addresses:
            return None
    except RuntimeError:  # no storage, or not PyTorch's own
        return None
    if new:
        pool.table.hold(anchors, _torch_private.weak_storages(new))
    for column in clones:
        pool.table.join(addresses, _torch_private.weak_storages(column))
    return list(map(list, clones))


def _has_plain_type(t: Tensor) -> bool:
    """Whether PyTorch's own code handles `t`. A subclass that has its say about that need not have a storage."""
    return type(t).__torch_dispatch__ == Tensor.__torch_dispatch__
