"""A moving average of a model's weights, kept beside it while it trains."""

from __future__ import annotations

import contextlib
import math
import numbers
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args

import torch
from torch import nn

from ..._errors import InputError
from ...copying.deep_copy import copy, fork
from ...copying.in_place import copy_
from ...copying.writing.named_parts import named_tensors
from .averaged_pairs import AveragedPairs
from .borrowed_weights import BorrowedWeights

Buffers = Literal["average", "copy", "keep"]
Decay = float | Callable[[int], float]
_KEYS = ("steps", "updates", "model")
_NON_PERSISTENT = "non_persistent"


class EMA:
    """An exponential moving average of a model's weights: `ema.model` is a model, `ema.update()` moves it.

    Each update does `average += (1 - decay) * (weights - average)`, as `AveragedModel` with `get_ema_multi_avg_fn`
    does after its first call; this average begins with the weights that the model has when the `EMA` is made::

        ema = tc.EMA(model, 0.999)
        for batch in loader:
            ...
            optimizer.step()
            ema.update()
        with ema.swapped():
            evaluate(model)  # or evaluate(ema.model), at any time

    The model may change between updates in any way that leaves names and shapes as they are: weights may be written
    in place or replaced, modules moved or compiled.

    The four questions, of `update`: is storage shared? Before the first update the average has the model's bytes,
    copy-on-write: no write is ever seen on the other side. Is the graph kept? No. Does it synchronise? Only where
    model and average are on different devices. Is an input changed? The average is, the model never.

    Args:
        model: the model. Its `EMA` keeps it alive.
        decay: how much of the average stays in an update, from 0 to below 1. Or a function of the number of updates
            made so far, for a schedule: `lambda n: 1 - (1 + n) ** -0.75` is the inverse gamma warm-up of timm and
            ema-pytorch; one that returns 0 copies the weights, which begins the average later.
        update_every: every how many calls `update` moves the average.
        warmup: whether the decay is at most `(1 + n) / (10 + n)` at update `n`, from 0 on, so that the first
            weights are soon forgotten.
        buffers: what happens to floating buffers. `"average"`: they move as weights do, as with
            `AveragedModel(use_buffers=True)`: BatchNorm's statistics are then about those of the averaged weights.
            `"copy"`: they become as the model's, as with `use_buffers=False`. `"keep"`: no buffer changes, so that
            what `torch.optim.swa_utils.update_bn(loader, ema.model)` computed stays. Integer buffers are copied
            with the first two; so are floating ones that held an infinity at the beginning, as masks do.
        dtype: what floating tensors of the average are kept in; None for what the model has. An average in
            bfloat16 or float16 stands still where the decay is near 1: its steps are too small for it. Give
            `torch.float32` there.
        device: where the average is; None for where the model is.

    Raises:
        InputError: an option has no such value, or the model has weights without values.

    Attributes:
        steps: how many times `update` was called.
        updates: how many times the average moved.
        update_every: as given.

    Example:
        >>> import torch, torchcopy as tc
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> _ = torch.nn.init.zeros_(model.weight)
        >>> ema = tc.EMA(model, decay=0.75)
        >>> _ = torch.nn.init.ones_(model.weight)
        >>> ema.update()
        True
        >>> ema.model.weight.item(), model.weight.item()
        (0.25, 1.0)
        >>> with ema.swapped():
        ...     model.weight.item()
        0.25
        >>> model.weight.item()
        1.0
    """

    def __init__(
        self,
        model: nn.Module,
        decay: Decay = 0.999,
        *,
        update_every: int = 1,
        warmup: bool = False,
        buffers: Buffers = "average",
        dtype: torch.dtype | None = None,
        device: str | torch.device | int | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"`model` must be a module; got {type(model).__name__}: {model!r}"[:120])
        self._decay = _checked_decay(decay)
        self.update_every = _checked_count("update_every", update_every, 1)
        if not isinstance(warmup, bool):
            raise InputError(f"`warmup` must be True or False; got {warmup!r}")
        if buffers not in get_args(Buffers):
            raise InputError(f"`buffers` must be one of {', '.join(map(repr, get_args(Buffers)))}; got {buffers!r}")
        if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise InputError(f"`dtype` must be a floating dtype such as torch.float32, or None; got {dtype!r}")
        _refuse_without_values(model)
        self._warmup, self._buffers = warmup, buffers
        self._live = model
        if dtype is None and device is None:
            self._model = fork(model, requires_grad=False)
        else:
            self._model = copy(model, requires_grad=False, dtype=dtype, device=device)
        self._model.eval()
        self.steps = self.updates = 0
        self._borrowed: BorrowedWeights | None = None
        self._begin()

    def _begin(self) -> None:
        self._pairs = AveragedPairs(self._model, self._live, self._buffers)

    @property
    def model(self) -> nn.Module:
        """The average: a module as the model is, in evaluation mode, no part of which requires gradients."""
        return self._model

    @property
    def decay(self) -> float:
        """The decay of the next update.

        Raises:
            InputError: the function that was given for it returns no number from 0 to 1.
        """
        decay = self._decay
        if callable(decay):
            given: Any = decay(self.updates)
            if isinstance(given, bool) or not isinstance(given, numbers.Real) or not 0 <= float(given) <= 1:
                raise InputError(f"`decay({self.updates})` must return a number from 0 to 1; got {given!r}")
            decay = float(given)
        return min(decay, (1 + self.updates) / (10 + self.updates)) if self._warmup else decay

    def update(self) -> bool:
        """Counts a step, and moves the average at every `update_every`-th: call it after `optimizer.step()`.

        Returns:
            Whether the average moved.

        Raises:
            InputError: names or shapes of the model are not those of the average any more, or the model has the
                averaged weights just now. Nothing was changed or counted.
        """
        if self._borrowed is not None:
            raise InputError("`update` was called inside `swapped()`: the model has the averaged weights there")
        moves = (self.steps + 1) % self.update_every == 0
        if moves:
            self._pairs.move(1 - self.decay)
            self.updates += 1
        self.steps += 1
        return moves

    @contextlib.contextmanager
    def swapped(self) -> Iterator[nn.Module]:
        """Within the block the model has the averaged values; afterwards its own, to the bit, also after an error.

        The values are written in place: parameters, buffers, and what optimizers refer to stay the objects that
        they are. Whatever is written to the model's parameters and buffers inside the block is gone after it, so
        the block is for evaluation: an optimizer step on the model raises there.

        Yields:
            The model.

        Raises:
            InputError: the block is inside another one of this average, or the model has other names or shapes.
        """
        if self._borrowed is not None:
            raise InputError(
                "`swapped()` is inside a `swapped()` block already: the model has the averaged weights"
            )
        borrowed = self._borrowed = BorrowedWeights(self._live)
        try:
            with borrowed.of(self._model):
                yield self._live
        finally:
            self._borrowed = None

    # --- keeping it --------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The average and its counts, for checkpoints and for `tc.History(model=model, ema=ema)`.

        As in `nn.Module.state_dict`, the tensors share the memory of the average. Options are not in it.
        """
        persistent = self._model.state_dict()
        state: dict[str, Any] = {"steps": self.steps, "updates": self.updates, "model": persistent}
        named, left_out = named_tensors(self._model)
        others = OrderedDict((name, t.detach()) for name, t in named.items() if name in left_out)
        if others:
            state[_NON_PERSISTENT] = others
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Writes a state that `state_dict` gave into the average, in place.

        Raises:
            InputError: it is no such state, or of another model. Nothing was changed.
        """
        if not isinstance(state, Mapping) or any(key not in state for key in _KEYS):
            given = f"keys {list(state)!r}" if isinstance(state, Mapping) else f"{type(state).__name__}"
            raise InputError(
                f"`state` must be what `EMA.state_dict()` gave, with {', '.join(_KEYS)}; got {given}"[:200]
            )
        steps, updates = (_checked_count(f"state[{key!r}]", state[key], 0) for key in ("steps", "updates"))
        saved = state["model"]
        if not isinstance(saved, Mapping):
            raise InputError(f"`state['model']` must be a state_dict; got {type(saved).__name__}")
        others = state.get(_NON_PERSISTENT, {})
        if not isinstance(others, Mapping):
            raise InputError(f"`state[{_NON_PERSISTENT!r}]` must be a dict of tensors; got {type(others).__name__}")
        copy_(self._model, {**saved, **others})
        if any(str(name).endswith("_extra_state") for name in saved):
            self._model.load_state_dict(saved)
        self.steps, self.updates = steps, updates

    def __getstate__(self) -> dict[str, Any]:
        """What `copy` and `pickle` take: model and average, tied as they are.

        Raises:
            InputError: the model has the averaged weights just now.
        """
        if self._borrowed is not None:
            raise InputError("an EMA cannot be copied inside `swapped()`: the model has the averaged weights there")
        return {name: value for name, value in self.__dict__.items() if name != "_pairs"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def __repr__(self) -> str:
        decay = self._decay if isinstance(self._decay, float) else "a function"
        return f"<EMA of {type(self._live).__name__}: decay {decay}, {self.updates} updates in {self.steps} steps>"


def _checked_decay(decay: Any) -> Decay:
    if callable(decay) and not isinstance(decay, (type, nn.Module)):
        schedule: Callable[[int], float] = decay
        return schedule
    if isinstance(decay, bool) or not isinstance(decay, numbers.Real):
        raise InputError(f"`decay` must be a number from 0 to below 1, or a function of the updates; got {decay!r}")
    value = float(decay)
    if not (math.isfinite(value) and 0 <= value < 1):
        raise InputError(f"`decay` must be from 0 to below 1, such as 0.999; got {value}")
    return value


def _checked_count(name: str, count: Any, least: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < least:
        raise InputError(f"`{name}` must be a whole number from {least} on; got {count!r}")
    return count


def _refuse_without_values(model: nn.Module) -> None:
    for name, t in named_tensors(model)[0].items():
        if t.is_meta or isinstance(t, (nn.UninitializedParameter, nn.UninitializedBuffer)):
            why = "is on the meta device" if t.is_meta else "is not initialised: run the model once"
            raise InputError(f"`model` has no values to average yet: {name!r} {why}")
