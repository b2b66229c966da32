"""The memo of a walk, which answers for tensors while a `__deepcopy__` of somebody else's runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_ABSENT: Final = object()


class Memo(dict[int, Any]):
    """Copies by the id of their originals, as `copy.deepcopy` keeps them."""

    __slots__ = ()


class _AnsweringMemo(Memo):
    """The memo that a `__deepcopy__` passes on to `copy.deepcopy`, which looks into it first.

    Asked for a tensor that has not been copied yet, it has the walk copy it. PyTorch's own `__deepcopy__` would
    refuse tensors inside a graph, and part views of one storage.
    """

    __slots__ = ()

    def get(self, key: int, default: Any = None) -> Any:
        known = dict.get(self, key, _ABSENT)
        if known is not _ABSENT:
            return known
        from .walk import running_walk

        walk = running_walk(self)
        if walk is None:
            return default
        self.__class__ = Memo  # type: ignore[assignment]  # the walk itself asks what is there
        try:
            return walk.answer(key, default)
        finally:
            self.__class__ = _AnsweringMemo

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int) and self.get(key, _ABSENT) is not _ABSENT


@contextmanager
def answering(memo: dict[int, Any]) -> Iterator[None]:
    """Has a walk's own memo answer for tensors while the body runs; another's memo stays as it is."""
    if type(memo) is not Memo:
        yield
        return
    memo.__class__ = _AnsweringMemo
    try:
        yield
    finally:
        memo.__class__ = Memo
