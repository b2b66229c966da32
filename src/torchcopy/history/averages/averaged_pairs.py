"""The tensors of an average beside those of its model, and how each follows."""

from __future__ import annotations

import operator
from itertools import chain
from operator import attrgetter, methodcaller
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ... import _torch_private
from ..._errors import InputError
from ...copying.in_place import copy_, lerp_
from ...copying.writing.dtype_rules import fault_of_lerp
from ...copying.writing.matching import Matching
from ...copying.writing.named_parts import named_tensors
from ...copying.writing.single_pairs import Writing
from ...copying.writing.tensor_pairs import checked_pairs
from ..comparing.named_states import same_memory

_dtype, _device, _values = attrgetter("dtype"), attrgetter("device"), methodcaller("values")
_ORDINARY = frozenset({Tensor, nn.Parameter})
_INTERPOLATED = frozenset(
    (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
)


class AveragedPairs:
    """Which tensors of an average move towards those of its model, and which are copied from them.

    What nobody has written since the average was made costs nothing: both still have the same bytes.

    Nothing about either model is taken for granted. At each move every table of every module is compared with what
    it held at the last one, and of every tensor where its memory is, its dtype, shape and strides. Only where all
    of that is as it was when `lerp_` last found everything in order is it not asked again.
    """

    def __init__(self, average: nn.Module, model: nn.Module, buffers: Literal["average", "copy", "keep"]) -> None:
        self._average, self._model, self._buffers = average, model, buffers
        own = set(map(id, average.buffers()))
        named = named_tensors(average)[0]
        self._with_infinities = {name for name, t in named.items() if id(t) in own and _holds_infinities(t)}
        self._lists: _Lists | None = None

    def move(self, share: float) -> None:
        """Moves the average by `share` towards the model; 1 copies it.

        Raises:
            InputError: the two do not go together any more. Nothing was changed.
        """
        if share == 0:
            return
        lists = self._lists
        facts = lists.facts() if lists is not None and lists.are_the_same() else None
        if lists is None or facts is None:
            lists = self._lists = self._listed()
            facts = lists.facts()
        elif share != 1 and facts == lists.written and lists.have_one_size():
            with torch.inference_mode():  # as `lerp_` does
                _torch_private.foreach_lerp_(lists.moving, lists.goals, share)
                _torch_private.foreach_copy_(lists.copied, lists.sources)
            return
        self._move(lists, share)
        lists.written = facts if lists.stay_in_order(facts) else None

    def _move(self, lists: _Lists, share: float) -> None:
        moving, goals = _apart(lists.moving, lists.goals)
        copied, sources = _apart(lists.copied, lists.sources)
        try:
            if share == 1:  # what is NaN or infinite would stay so
                copy_(moving + copied, goals + sources)
                return
            if not all(map(Tensor.is_same_size, copied, sources)):
                copy_(copied, sources)  # raises, before anything has moved
            if len(set(map(same_memory, copied))) < len(copied):
                lists.refuse()
            if moving:
                lerp_(moving, goals, share)
        except InputError:
            lists.refuse()
            raise
        if copied:
            copy_(copied, sources)

    def _listed(self) -> _Lists:
        lists = _Lists(self._average, self._model)
        if lists.averages.keys() != lists.weights.keys():
            lists.refuse()
        own = set(map(id, self._average.buffers())) - set(map(id, self._average.parameters()))
        known = set()
        for name, t in lists.averages.items():
            weight = lists.weights[name]
            is_buffer = id(t) in own
            if (id(t), id(weight)) in known or (is_buffer and self._buffers == "keep"):
                continue
            known.add((id(t), id(weight)))
            if (t.is_floating_point() or t.is_complex()) and not (
                is_buffer and (self._buffers == "copy" or name in self._with_infinities)
            ):
                lists.moving.append(t)
                lists.goals.append(weight)
            else:
                lists.copied.append(t)
                lists.sources.append(weight)
        return lists


class _Lists:
    """The tensors of both models, and all that these consisted of when they were listed.

    Attributes:
        averages: the tensors of the average, by name.
        weights: those of the model.
        moving, goals: those that move, and where to.
        copied, sources: those that are copied, and where from.
        written: their facts when they were last found in order; None where these do not settle it.
    """

    def __init__(self, average: nn.Module, model: nn.Module) -> None:
        self.averages, self.weights = named_tensors(average)[0], named_tensors(model)[0]
        self.moving: list[Tensor] = []
        self.goals: list[Tensor] = []
        self.copied: list[Tensor] = []
        self.sources: list[Tensor] = []
        self.written: Any = None
        tables: list[Any] = []
        for each in (*average.modules(), *model.modules()):
            tables += each._parameters, each._buffers, each._modules
        self._empty, self._tables = [t for t in tables if not t], [t for t in tables if t]
        self._held = list(chain.from_iterable(map(_values, self._tables)))  # kept, so that their ids stay theirs
        self._ids = list(map(id, self._held))

    def facts(self) -> Any:
        """What decides whether the lists can be written: memory, dtypes, strides; None where it cannot be told."""
        tensors = self.moving + self.goals + self.copied + self.sources
        contiguous = list(map(Tensor.is_contiguous, tensors))
        strides = (
            () if all(contiguous) else [t.stride() for t, own in zip(tensors, contiguous, strict=True) if not own]
        )
        try:
            return _torch_private.storage_addresses(tensors), list(map(_dtype, tensors)), contiguous, strides
        except RuntimeError:  # one has no storage
            return None

    def stay_in_order(self, facts: Any) -> bool:
        """Whether lists that were just written can be written again as long as they have these facts.

        So it is where every tensor has memory of its own: then none of them overlap, whatever their sizes.
        """
        if facts is None:
            return False
        averages, weights = self.moving + self.copied, self.goals + self.sources
        return (
            0 not in facts[0]
            and len(set(facts[0])) == len(facts[0])
            and _ORDINARY.issuperset(map(type, averages + weights))
            and all(t.dtype in _INTERPOLATED for t in self.moving)
            and list(map(_dtype, averages)) == list(map(_dtype, weights))
            and list(map(_device, averages)) == list(map(_device, weights))
            and not any(t.is_nested or t.layout is not torch.strided for t in averages + weights)
        )

    def are_the_same(self) -> bool:
        """Whether both models consist of the same tensors."""
        return not any(self._empty) and list(map(id, chain.from_iterable(map(_values, self._tables)))) == self._ids

    def have_one_size(self) -> bool:
        """Whether each tensor has the shape of the one that it follows."""
        return all(map(Tensor.is_same_size, self.moving + self.copied, self.goals + self.sources))

    def refuse(self) -> None:
        """Raises what `lerp_` says about the two by name, where something is wrong with them.

        Raises:
            InputError: they do not go together. Nothing was changed.
        """
        with_names = Matching(self.averages, self.weights, assign=False)
        checked_pairs(with_names, Writing("EMA.update", fault_of_lerp, lambda d, _: d))


def _apart(averages: list[Tensor], weights: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """The pairs without those that still share their bytes: nobody has written these since the average was made.

    What a tied average shares with one weight stays where another one has come apart: it cannot follow both.
    """
    try:
        at = _torch_private.storage_addresses(averages), _torch_private.storage_addresses(weights)
    except RuntimeError:  # one has no storage
        return averages, weights
    if not any(map(operator.eq, *at)):
        return averages, weights
    pairs = [(same_memory(t), t, w) for t, w in zip(averages, weights, strict=True)]
    written = {memory for memory, _, w in pairs if memory != same_memory(w)}
    kept = [(t, w) for memory, t, w in pairs if memory in written]
    return [t for t, _ in kept], [w for _, w in kept]


def _holds_infinities(t: Tensor) -> bool:
    if t.layout is not torch.strided or not (t.is_floating_point() or t.is_complex()):
        return False
    return bool(t.isinf().any())
