"""Tensors that somebody wants to see read, and modules that somebody wants to see called; none is kept alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from torch import Tensor, nn

from ..watching.op_plans import OpPlan
from .weak_tables import forget_with

_MOST_EACH = 8
T = TypeVar("T")
L = TypeVar("L")


class Reader(Protocol):
    """Wants to know when a tensor is read."""

    def read(self, tensor: Tensor, plan: OpPlan, args: Any, targets: list[Tensor]) -> None:
        """An operation is about to be called with `tensor`, and will write to `targets`."""


class Listener(Protocol):
    """Wants to know when a module is called."""

    def begins(self, mode: Any, module: nn.Module, args: Any, kwargs: Any) -> Callable[[], None] | None:
        """The module is about to be called. Returns what to do at the end."""


class Watched(Generic[T, L]):
    """Who watches which object: by the object's identity, for as long as it lives.

    Attributes:
        by_id: empty most of the time, which is what is asked first.

    Args:
        changed: called before an object is watched that was not.
    """

    def __init__(self, changed: Callable[[], None] | None = None) -> None:
        self._changed = changed
        self.by_id: dict[int, list[L]] = {}
        self._alive: dict[int, tuple[weakref.ref[Any], ...]] = {}

    def watch(self, watched: T, by: L) -> None:
        """Has `by` told what happens to an object."""
        identity = id(watched)
        there = self._alive.get(identity)
        if there is None or there[0]() is not watched:
            if self._changed is not None:
                self._changed()
            self.by_id[identity] = []
            self._alive[identity] = forget_with(watched, self.by_id, self._alive)
        those = self.by_id[identity]
        if not any(each is by for each in those):
            those.append(by)
            del those[:-_MOST_EACH]

    def leave(self, by: L) -> None:
        """`by` wants to know nothing more."""
        for identity, there in list(self.by_id.items()):
            kept = [each for each in there if each is not by]
            if kept:
                self.by_id[identity] = kept
            else:
                self.by_id.pop(identity, None)
                self._alive.pop(identity, None)

    def clear(self) -> None:
        """Forgets all."""
        self.by_id.clear()
        self._alive.clear()


WatchedTensors = Watched[Tensor, Reader]
WatchedModules = Watched[nn.Module, Listener]
