"""Anchors: what makes PyTorch's copy-on-write safe when several threads give up one buffer at the same moment.

Lazy clones share a context that counts its owners (`c10/core/impl/COWDeleter.cpp`). An owner gives up when it is
first written or when its storage dies. It lowers the count first and locks the context afterwards; meanwhile an
owner on another thread can bring the count to zero and delete the context under it. An *anchor* is one more lazy
clone that nobody writes. While it is held, no writer and no dropper is ever the last owner, and only the last one
deletes. It is let go, under one lock, when nothing but anchors is left on the context.

docs/decisions/0007-copy-on-write-across-threads.md has the argument in full.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence

from torch import Tensor

from ... import _torch_private
from .anchor_pool import AnchorPool
from .anchor_report import AnchorReport

pool = AnchorPool()
atexit.register(pool.close)
if hasattr(os, "register_at_fork"):
    # Forking waits until no other thread is making lazy clones or sweeping, so that the child sees none half made.
    os.register_at_fork(
        before=lambda: pool.lock.acquire(),
        after_in_parent=lambda: pool.lock.release(),
        after_in_child=lambda: pool.after_fork_in_child(),
    )


def settle() -> int:
    """Lets go at once of the memory that nothing but anchors keeps alive; returns how many anchors are left.

    That happens by itself within a fraction of a second. An anchor is left while a lazy clone and its source
    still share bytes, and for a moment after a storage died that shared them.
    """
    with _torch_private.outside_modes():
        pool.sweep()
    return len(pool)


def held_bytes() -> int:
    """Bytes that anchors keep alive and the program itself does not: old values that `settle()` can give back."""
    return pool.report().held_bytes


def report() -> AnchorReport:
    """What anchors hold at this moment."""
    return pool.report()


def let_go(tensors: Sequence[Tensor]) -> int:
    """Lets the anchors of `tensors` go where nobody else shares their bytes any more; returns how many those were.

    While an anchor is held, the first write to a tensor copies its bytes, even when all its lazy clones are gone.
    After this call, it does not.

    It is for a point where the caller knows what PyTorch cannot say: during the call, no other thread writes or
    drops one of `tensors`, and the lazy clones that are gone were written or dropped before it.

    Args:
        tensors: sources or lazy clones. Not changed, not materialised.
    """
    return pool.let_go(tensors)
