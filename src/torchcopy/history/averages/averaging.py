"""Averages of states, for the weights at the end of a run that are better than each of them."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from ..._errors import InputError
from ...copying.deep_copy import copy
from ..comparing.named_states import (
    ACCEPTED,
    NamedState,
    Weights,
    check_part,
    described_tensor,
    is_extra_state,
    read_state,
    same_memory,
)
from ..snapshot import Snapshot
from ..state_trees import put_together
from .weighted_mean import weighted_mean

Buffers = Literal["average", "last"]
_LISTED = 20


def average(
    snapshots: Iterable[Weights],
    weights: Iterable[float] | None = None,
    *,
    part: str | None = None,
    buffers: Buffers = "average",
) -> Any:
    """The average of several states, to be loaded: `model.load_state_dict(tc.average(history[-5:]))`.

    Floating and complex tensors are averaged, in float64 a piece at a time, and returned in their dtype. What
    cannot lie between is that of the last state: integers such as BatchNorm's counter, booleans, values that are no
    tensors. Elements that are equal in all states stay as they are to the bit, infinities too; where infinities or
    NaN meet other values the result is what adding them up gives. Tensors that share memory in all states, as tied
    weights do, share it in the result.

    Running statistics of BatchNorm (floating buffers) are averaged by default, as `AveragedModel(use_buffers=True)`
    does: they are nearer to what the averaged weights produce than those of any one state. Neither are theirs:
    where there is data, compute them anew with `torch.optim.swa_utils.update_bn(loader, model)`.

    The four questions: no storage is shared with a state. No graph is kept. It waits for bytes of snapshots that
    are on their way, and for devices where states are on several. No input is changed. Beside the result a piece of
    one tensor is in memory; but an iterator is read to its end first, and so are all its states.

    Args:
        snapshots: snapshots (a `History` too), modules, or mappings of tensors such as state_dicts. All need the
            same names, shapes and dtypes.
        weights: how much each counts; None for all alike. They need not add up to 1. A state with weight 0 counts
            for nothing, except that the last one still gives what is not averaged.
        part: which part of the snapshots; None for their only module, else their only part with tensors.
        buffers: `"average"`, or `"last"` for those of the last state. A plain state_dict does not say which are
            buffers: then one of the states has to be a module, or a snapshot with its live module.

    Returns:
        A state as the last one is, on its devices: an `OrderedDict` for a module.

    Raises:
        InputError: there is no state, the states differ (all differences are listed), or an option has no such
            value. Nothing was computed.

    Example:
        >>> import torch, torchcopy as tc
        >>> a, b = ({"w": torch.full((2,), x), "steps": torch.tensor(int(x))} for x in (1.0, 4.0))
        >>> tc.average([a, b])
        {'w': tensor([2.5000, 2.5000]), 'steps': tensor(4)}
        >>> tc.average([a, b], weights=[2, 1])["w"]
        tensor([2., 2.])
    """
    if buffers not in get_args(Buffers):
        raise InputError(f"`buffers` must be one of {', '.join(map(repr, get_args(Buffers)))}; got {buffers!r}")
    given = _listed(snapshots)
    shares = _checked_weights(weights, len(given))
    check_part(part, any(isinstance(each, Snapshot) for each in given))
    states = [read_state(each, part, f"snapshots[{k}]") for k, each in enumerate(given)]
    differences = [line for k in range(len(states)) for line in _differences(states, k)]
    if differences:
        raise InputError(_message(differences))
    kept = _buffers_of(states) if buffers == "last" else frozenset()
    last = states[-1]
    if not last.tensors:
        raise InputError(f"`snapshots[{len(states) - 1}]` has no tensors to average: {last.said}")
    counted = [(state, share) for state, share in zip(states, shares, strict=True) if share]

    def of(name: str) -> Tensor:
        t = last.tensors[name]
        if name in kept or is_extra_state(name) or not _has_mean(t):
            return _copied(t)
        return weighted_mean([state.tensors[name] for state, _ in counted], [s for _, s in counted], like=t)

    return _built(states, last, of)


def _built(states: Sequence[NamedState], last: NamedState, of: Callable[[str], Tensor]) -> Any:
    """The state with the tensors that `of` makes, each shared memory once."""
    made: dict[object, Tensor] = {}
    tensors: list[Any] = [None] * (1 + max(last.places.values()))
    for name, place in last.places.items():
        key = tuple(same_memory(state.tensors[name]) for state in states)
        if key not in made:
            made[key] = of(name)
        tensors[place] = made[key]
    return put_together(last.tree, tensors)


def _has_mean(t: Tensor) -> bool:
    return t.is_floating_point() or t.is_complex()


def _copied(t: Tensor) -> Tensor:
    return copy(t.detach(), on_escape="ignore")


# --- what is refused -------------------------------------------------------------------------------------------


def _listed(snapshots: Any) -> list[Any]:
    if isinstance(snapshots, (Snapshot, nn.Module, Mapping, Tensor, str)) or not isinstance(snapshots, Iterable):
        got = f"{snapshots!r}"[:60] if snapshots is None else f"one {type(snapshots).__name__}"
        raise InputError(f"`snapshots` must be several, as in average([a, b]), each {ACCEPTED}; got {got}")
    given = list(snapshots)
    if not given:
        raise InputError("there is nothing to average: `snapshots` is empty")
    return given


def _checked_weights(weights: Any, count: int) -> list[float]:
    """How much each state counts, the largest 1: sums of these neither overflow nor vanish."""
    if weights is None:
        return [1.0] * count
    if isinstance(weights, (str, Mapping)) or not isinstance(weights, Iterable):
        raise InputError(f"`weights` must be a number for each state, as in weights=[2, 1]; got {weights!r}")
    if isinstance(weights, Tensor):
        weights = weights.tolist() if weights.dim() == 1 else [weights]
    shares = [_checked_weight(k, weight) for k, weight in enumerate(weights)]
    if len(shares) != count:
        raise InputError(f"`weights` must be as many as the states, {count}; got {len(shares)}")
    largest = max(shares)
    if largest == 0:
        raise InputError("`weights` must not all be 0: no state would count")
    return [share / largest for share in shares]


def _checked_weight(k: int, weight: Any) -> float:
    if isinstance(weight, bool) or not isinstance(weight, numbers.Real):
        raise InputError(f"`weights[{k}]` must be a number; got {weight!r}")
    try:
        share = float(weight)
    except OverflowError:  # a whole number of hundreds of digits
        share = math.inf
    if not math.isfinite(share) or share < 0:
        raise InputError(f"`weights[{k}]` must be finite and not negative; got {share}")
    return share


def _differences(states: Sequence[NamedState], k: int) -> list[str]:
    """How state `k` differs from the first, a line each; and what of its tensors cannot be averaged."""
    first, state = states[0].tensors, states[k].tensors
    where = f"snapshots[{k}]"
    lines = [f"{where}: {n!r} is missing, snapshots[0] has it" for n in first if n not in state]
    lines += [f"{where}: {n!r} is not in snapshots[0]" for n in state if n not in first]
    for name, t in state.items():
        other = first.get(name)
        if t.is_meta or t.layout is not torch.strided or t.is_quantized or t.is_nested:
            lines.append(f"{where}: {name!r} is no tensor that can be averaged: {_kind(t)}")
        elif other is not None and (t.dtype != other.dtype or t.shape != other.shape):
            lines.append(f"{where}: {name!r} is {described_tensor(t)}, in snapshots[0] {described_tensor(other)}")
    return lines


def _kind(t: Tensor) -> str:
    return f"{described_tensor(t)}, {str(t.layout).removeprefix('torch.')}"


def _message(lines: Sequence[str]) -> str:
    if len(lines) == 1:
        return f"nothing was averaged: {lines[0]}"
    listed = "".join(f"\n  {line}" for line in lines[:_LISTED])
    more = f"\n  … and {len(lines) - _LISTED} more" if len(lines) > _LISTED else ""
    return f"nothing was averaged, as the states differ in {len(lines)} places:{listed}{more}"


def _buffers_of(states: Sequence[NamedState]) -> frozenset[str]:
    """The names of the buffers, from the last state that says.

    Raises:
        InputError: none does.
    """
    for state in reversed(states):
        if state.buffers is not None:
            return state.buffers
    raise InputError(
        "buffers='last' needs to know which are buffers, and no state says so: give one as a module, or with "
        "`state_dict(keep_vars=True)`"
    )
