"""Storages that something hangs on: watched through weak references, so that none is kept alive.

A storage is known by the address of its header. While a weak reference is held, no other storage can have that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress
from typing import Protocol

from torch import Tensor, UntypedStorage

from ... import _torch_private


class Dependent(Protocol):
    """Something that hangs on a storage."""

    def written(self, storage: int, write: Write) -> bool:
        """The storage was written. Returns whether that is all it wanted to know."""

    def gone(self, storage: int) -> None:
        """The storage died."""


class Write:
    """One write: by which operation, at which line.

    Attributes:
        site: the line.
        number: the number that the next node of a graph had at that moment.
        targets: the tensors that the operation wrote to.
        name: of the operation.
        fills: whether the tensors were only there to take the operation's result: `out=`.
    """

    __slots__ = ("fills", "name", "number", "site", "targets")

    def __init__(
        self, site: int, number: int, targets: list[Tensor], name: str = "", *, fills: bool = False
    ) -> None:
        self.site, self.number, self.targets = site, number, targets
        self.name, self.fills = name, fills


class WatchedStorages:
    """Who hangs on which storage. Not safe for threads by itself: the auditor has a lock."""

    def __init__(self) -> None:
        self.dependents: dict[int, list[Dependent]] = {}
        self._weak: dict[int, int] = {}
        self._sweep_at = 512

    def __len__(self) -> int:
        return len(self.dependents)

    def watch(self, tensor: Tensor, dependent: Dependent) -> int:
        """Has `dependent` told what happens to the storage of a tensor. Returns the storage's number."""
        storage = _torch_private.storage_id(tensor)
        there = self.dependents.get(storage)
        if there is None:
            self._weak[storage] = _torch_private.weak_storages((tensor,))[0]
            self.dependents[storage] = [dependent]
        else:
            there.append(dependent)
        return storage

    def is_alive(self, storage: int) -> bool:
        """Whether a watched storage has not died."""
        weak = self._weak.get(storage)
        return weak is not None and not _torch_private.expired_storages((weak,))[0]

    def hold(self, storage: int) -> tuple[UntypedStorage, int, int] | None:
        """A watched storage on the CPU, its address and size; None where it has died. It lives while it is held."""
        weak = self._weak.get(storage)
        return None if weak is None else _torch_private.held_storage(weak)

    def written(self, storages: Iterable[int], write: Write) -> None:
        """Tells those that hang on one of the storages."""
        dependents = self.dependents
        for storage in storages:
            there = dependents.get(storage)
            if there:
                dependents[storage] = [each for each in there if not each.written(storage, write)]

    def sweep_if_due(self) -> None:
        """Sweeps, if there are twice as many as the last sweep left."""
        if len(self.dependents) >= self._sweep_at:
            self.sweep()

    def sweep(self) -> None:
        """Tells of those that have died, and forgets them and those that nothing hangs on any more."""
        storages = list(self._weak)
        dead = list(compress(storages, _torch_private.expired_storages(list(self._weak.values()))))
        for storage in dead:
            for each in self.dependents[storage]:
                each.gone(storage)
        bare = {storage for storage, there in self.dependents.items() if not there}
        self._forget(bare.union(dead))
        self._sweep_at = max(512, 2 * len(self.dependents))

    def _forget(self, storages: Iterable[int]) -> None:
        for storage in storages:
            del self.dependents[storage]
            _torch_private.free_weak_storages((self._weak.pop(storage),))

    def all_dependents(self) -> Iterator[Dependent]:
        """Everything that hangs on a storage."""
        for there in list(self.dependents.values()):
            yield from there

    def clear(self) -> None:
        """Forgets all storages."""
        self._forget(list(self.dependents))
