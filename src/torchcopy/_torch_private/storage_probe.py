"""Looks at a storage without keeping it: weak references, and what they show."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from .modes import below_autograd

_C: Any = torch._C
_UntypedStorage: Any = torch.UntypedStorage
_T = TypeVar("_T")


def weak_storages(tensors: Sequence[Tensor]) -> list[int]:
    """A weak reference to the storage of each tensor, for `StorageProbe`; each has to be freed once."""
    return list(map(_UntypedStorage._weak_ref, map(Tensor.untyped_storage, tensors)))


def free_weak_storages(weak: Iterable[int]) -> None:
    """Frees weak references of `weak_storages`. Until then the storage's header, not its bytes, stays allocated."""
    deque(map(_UntypedStorage._free_weak_ref, weak), maxlen=0)


def expired_storages(weak: Sequence[int]) -> list[bool]:
    """Whether the storage behind each weak reference is gone."""
    return list(map(_UntypedStorage._expired, weak))


class StorageProbe:
    """Looks at storages through weak references, without writing. One thread at a time."""

    def __init__(self) -> None:
        self._tensors: dict[torch.device, Tensor] = {}
        self._last: Tensor | None = None

    def look(self, weak: Sequence[int]) -> list[int | None]:
        """Address of each storage's bytes; None where the storage is gone."""
        return self._ask(_C._data_address, weak)

    def are_lazy(self, weak: Sequence[int]) -> list[bool | None]:
        """Whether each storage is copy-on-write; None where it is gone."""
        return self._ask(_C._is_cow_tensor, weak)

    def _ask(self, question: Callable[[Tensor], _T], weak: Sequence[int]) -> list[_T | None]:
        with below_autograd():
            try:
                if self._last is not None:
                    # One at a time goes through all `map`s, so that no storage is kept longer than it takes.
                    storages = map(_UntypedStorage._new_with_weak_ptr, weak)
                    return list(map(question, map(self._last.set_, storages)))
            except (TypeError, RuntimeError):  # one is gone, or on another device
                pass
            finally:
                self._look_away()
            try:
                return [self._ask_one(question, reference) for reference in weak]
            finally:
                self._look_away()

    def _ask_one(self, question: Callable[[Tensor], _T], weak: int) -> _T | None:
        storage = _UntypedStorage._new_with_weak_ptr(weak)
        if storage is None:
            return None
        tensor = self._tensors.get(storage.device)
        if tensor is None:
            with torch.inference_mode(False):
                tensor = torch.empty(0, dtype=torch.uint8, device=storage.device)
            self._tensors[storage.device] = tensor
        if tensor is not self._last:
            self._look_away()
        self._last = tensor
        return question(tensor.set_(storage))

    def _look_away(self) -> None:
        """Lets go of the storage looked at last."""
        if self._last is not None:
            self._last.set_()  # type: ignore[call-overload]  # no arguments: an empty storage
