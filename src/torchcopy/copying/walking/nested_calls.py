"""Walks that wait for a `__deepcopy__` of somebody else's, and the memo that answers for them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .walk import Walk

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
        walk = waiting_walk(self)
        if walk is None:
            return default
        self.__class__ = Memo  # type: ignore[assignment]  # the walk itself asks what is there
        try:
            return walk.answer(key, default)
        finally:
            self.__class__ = _AnsweringMemo

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int) and self.get(key, _ABSENT) is not _ABSENT


_waiting: Final[dict[int, Walk]] = {}
"""By the id of their memo."""


def waiting_walk(memo: dict[int, Any] | None) -> Walk | None:
    """The walk whose memo this is, if it is waiting for a `__deepcopy__`."""
    return None if memo is None else _waiting.get(id(memo))


@contextmanager
def waiting(walk: Walk) -> Iterator[None]:
    """The body is code that is not ours: calls of `copy` with the walk's memo join the walk meanwhile.

    The walk's own memo answers for tensors; one that came from elsewhere stays as it is.
    """
    memo = walk.memo
    outer = _waiting.get(id(memo))
    _waiting[id(memo)] = walk
    answers = type(memo) is Memo
    if answers:
        memo.__class__ = _AnsweringMemo
    try:
        yield
    finally:
        if answers:
            memo.__class__ = Memo
        if outer is None:
            del _waiting[id(memo)]
        else:
            _waiting[id(memo)] = outer
