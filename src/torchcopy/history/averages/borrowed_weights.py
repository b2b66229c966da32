"""A model that has other values for a while, and gets its own back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ... import _torch_private
from ..._errors import InputError
from ..._tensors import has_storage
from ...copying.deep_copy import copy
from ...copying.in_place import copy_
from ...copying.writing.named_parts import named_tensors


class BorrowedWeights:
    """The parameters and buffers of a model: which objects they are, which memory they have, and what is in it."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._places: list[tuple[Any, str, Tensor]] = [
            (table, name, t)
            for each in model.modules()
            for table in (each._parameters, each._buffers)
            for name, t in table.items()
            if t is not None
        ]
        self._tensors = list({id(t): t for _, _, t in self._places}.values())
        with torch.no_grad():
            self._memory = [t.detach() for t in self._tensors]
        self._values = copy(self._memory, on_escape="ignore")

    @contextlib.contextmanager
    def of(self, lender: nn.Module) -> Iterator[None]:
        """Within the block the model has the values of another one.

        Raises:
            InputError: the two do not go together; nothing was changed.
        """
        hook = register_optimizer_step_pre_hook(self._refuse_step)
        try:
            copy_(named_tensors(self._model)[0], named_tensors(lender)[0])
            yield
        finally:
            hook.remove()
            self._give_back()

    def _give_back(self) -> None:
        """All as it was: first the objects in their places, then their memory, then what was in it."""
        for table, name, t in self._places:
            if table.get(name) is not t:
                table[name] = t
        for t, memory in zip(self._tensors, self._memory, strict=True):
            if not _is_view_of_same(t, memory):
                t.data = memory
        copy_(self._memory, self._values)

    def _refuse_step(self, optimizer: Optimizer, *_: object) -> None:
        own = set(map(id, self._tensors))
        if any(id(p) in own for group in optimizer.param_groups for p in group["params"]):
            raise InputError(
                f"`{type(optimizer).__name__}.step()` was called inside `swapped()`: the model has the averaged "
                "weights there, and what is trained would be lost. Step outside of the block"
            )


def _is_view_of_same(t: Tensor, memory: Tensor) -> bool:
    """Whether a tensor still sees the memory that it had, in the same way."""
    if (
        t.layout is not memory.layout
        or t.dtype != memory.dtype
        or t.device != memory.device
        or t.shape != memory.shape
    ):
        return False
    if not (t.layout is torch.strided and has_storage(t) and has_storage(memory)):
        return True
    return (
        _torch_private.storage_id(t) == _torch_private.storage_id(memory)
        and t.storage_offset() == memory.storage_offset()
        and t.stride() == memory.stride()
    )
