"""Which places of a state hold the same tensor, as with tied weights."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


class Places:
    """Which places of a state hold the same tensor; remembered, as it is nearly always as it was."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._first: list[int] | None = None
        self._places: Sequence[int] = ()

    def each_once(self, tensors: list[Tensor]) -> tuple[list[Tensor], Sequence[int]]:
        """The tensors without repetitions, and for each place the number of its tensor among those."""
        ids = list(map(id, tensors))
        if ids != self._ids:
            self._look(ids)
        first = self._first
        return (tensors if first is None else list(map(tensors.__getitem__, first))), self._places

    def _look(self, ids: list[int]) -> None:
        if len(set(ids)) == len(ids):
            self._first, self._places = None, range(len(ids))
        else:
            first = {identity: k for k, identity in reversed(list(enumerate(ids)))}
            numbers_of = {identity: k for k, identity in enumerate(dict.fromkeys(ids))}
            self._first = [first[identity] for identity in numbers_of]
            self._places = [numbers_of[identity] for identity in ids]
        self._ids = ids
