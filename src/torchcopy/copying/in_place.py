"""Copies into what exists, and moves what exists towards something else."""

from __future__ import annotations

import math
import numbers
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from .. import _torch_private
from .._errors import InputError
from .collector import no_collection
from .writing.difference_wording import described, path_text
from .writing.dtype_rules import CONVERTED, fault_of_copy, fault_of_lerp, largest_weight
from .writing.matching import Matching
from .writing.new_values import assigned
from .writing.single_pairs import Writing
from .writing.tensor_pairs import checked_pairs
from .writing.tensor_writes import stage, write

T = TypeVar("T")

# A weight up to this one needs no look at the dtypes.
_SUITS_ALL = float(np.finfo(np.float16).max)


@_torch_private.outside_compiled_graphs
def copy_(dst: T, src: object, *, non_blocking: bool = False) -> T:
    """Copies `src` into `dst`, which keeps its tensors, their dtypes and their devices.

    Both can be tensors, modules, optimizers, NumPy arrays, and any nesting of dicts, lists, tuples and
    dataclasses of them; a module, or an optimizer, goes with its state_dict too, on either side. They have to be
    alike in structure and shapes: every difference is found before the first byte is written, and a call that
    raises has changed nothing.

    - Modules go by the names of their parameters and buffers, non-persistent ones included, whether they are
      compiled or not. Nothing else in a module is copied. A state_dict may lack the non-persistent ones; what
      `get_extra_state` put into it stays out.
    - Optimizers go by the number of each parameter, as in their state_dicts. State and options are copied, the
      parameters themselves are not: give `(model, optimizer)` for all.
    - Values that are no tensors (numbers, strings, None) are assigned where they differ and `dst` has them in a
      dict, list, dataclass or parameter group. What else differs, or cannot be changed, is an error.
    - A tensor that `dst` has in two places (tied weights) is written once. If `src` has two tensors for it, they
      must hold the same values; so must those for tensors of `dst` that overlap, where they do.
    - `dst` and `src` may share memory in any way: `copy_([a, b], [b, a])` swaps.

    The four questions: no storage is shared between `dst` and `src` that was not before. No graph is kept, and none
    is recorded: a graph that needs the old values of `dst` raises at its backward, as after `Tensor.copy_`. From
    one device to another the call waits as `Tensor.copy_` does. `dst` is changed, `src` is not.

    Args:
        dst: what to write into.
        src: what to copy. Where both are single tensors, it is broadcast to the shape of `dst`.
        non_blocking: issue copies between host and device without waiting for each. For those to the host the call
            waits once, at its end, so that nobody reads too early; a pinned `src` on the host must not be written
            until its device has it.

    Returns:
        `dst`.

    Raises:
        InputError: the two do not go together. The message names each place, what was expected, and what is there.
            Or `non_blocking` is no bool.

    Example:
        >>> import torch, torchcopy as tc
        >>> model, best = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
        >>> tc.copy_(best, model) is best
        True
        >>> torch.equal(best.weight, model.weight), best.weight is model.weight
        (True, False)
        >>> tc.copy_(torch.zeros(2), torch.zeros(3))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        torchcopy.InputError: `copy_` wrote nothing: dst: expected float32[2] cpu, found float32[3] cpu: ...
    """
    if not isinstance(non_blocking, bool):
        raise InputError(f"non_blocking is {described(non_blocking)}: expected True or False")
    with no_collection():
        matching = Matching(dst, _broadcast(src, dst), assign=True)
        pairs = checked_pairs(matching, _COPYING)
        stage(pairs)
        with assigned(matching.new_values):
            write(pairs, non_blocking=non_blocking)
    return dst


@_torch_private.outside_compiled_graphs
def lerp_(dst: T, src: object, weight: float | Tensor) -> T:
    """Moves `dst` towards `src`: `dst += weight * (src - dst)`, for averages of weights and target networks.

    Takes what `copy_` takes, with the same checks before anything is written. Floating and complex tensors are
    interpolated, at the precision of `dst`: it may be float32 for a bfloat16 model. Integer and boolean ones, such
    as BatchNorm's counter, are copied. Values that are no tensors are passed over, and need not be equal. Tied
    weights move once, and so does memory that several tensors of `dst` share.

    The four questions: no storage is shared between `dst` and `src` that was not before. No graph is kept, and none
    is recorded. From one device to another the call waits as `Tensor.copy_` does, and for a `weight` that lies on a
    device. `dst` is changed, `src` is not.

    Args:
        dst: what to move.
        src: where to. Where both are single tensors, it is broadcast to the shape of `dst`.
        weight: how far: 0 leaves `dst` as it is, 1 copies `src`. A finite real number, or a tensor or array of
            one. Outside of 0 to 1 it extrapolates, as `Tensor.lerp_` does. The weight of `AveragedModel` for a
            decay `d` is `1 - d`.

    Returns:
        `dst`.

    Raises:
        InputError: the two do not go together, or `weight` is no finite number, or too large for a dtype of `dst`.

    Example:
        >>> import torch, torchcopy as tc
        >>> average = {"w": torch.zeros(2), "steps": torch.tensor(3)}
        >>> tc.lerp_(average, {"w": torch.ones(2), "steps": torch.tensor(4)}, 0.25)
        {'w': tensor([0.2500, 0.2500]), 'steps': tensor(4)}
    """
    share = _checked_weight(weight)

    def spare(d: Tensor, s: Tensor) -> Tensor:
        return d.clone().lerp_(s.to(d.device, d.dtype), share)

    with no_collection():
        matching = Matching(dst, _broadcast(src, dst), assign=False)
        pairs = checked_pairs(matching, Writing("lerp_", fault_of_lerp, spare))
        _check_weight_suits(share, matching)
        stage(pairs, share)
        write(pairs, share)
    return dst


def _broadcast(src: object, dst: object) -> object:
    """`src` in the shape of `dst`, where both are tensors and it can be; otherwise as it is."""
    if isinstance(src, Tensor) and isinstance(dst, Tensor):
        try:
            return src.detach().expand(dst.shape) if src.shape != dst.shape else src
        except (RuntimeError, ValueError):
            return src
    return src


def _copied(d: Tensor, s: Tensor) -> Tensor:
    return torch.empty_like(d).copy_(s)


_COPYING = Writing("copy_", fault_of_copy, _copied)


def _checked_weight(weight: Any) -> float:
    """The weight as a float.

    Raises:
        InputError: it is no finite real number.
    """
    value = weight
    if isinstance(weight, (Tensor, np.ndarray)):
        value = _only_number(weight)
        if value is None:
            raise InputError(f"weight is {described(weight)}: expected one real number, such as 0.01")
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError(f"weight is {described(weight)}: expected a real number, such as 0.01")
    try:
        share = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        share = math.inf
    if not math.isfinite(share):
        raise InputError(f"weight is {share}: expected a finite number, such as 0.01")
    return share


def _only_number(weight: Any) -> Any:
    """What a tensor or array of one real number holds; None for others."""
    if isinstance(weight, np.ndarray):
        return weight.item() if weight.size == 1 and weight.dtype.kind in "iuf" else None
    if weight.dtype not in CONVERTED or weight.dtype == torch.bool or weight.is_complex() or weight.is_meta:
        return None
    try:
        return weight.item() if weight.numel() == 1 else None
    except RuntimeError:  # nested, for one
        return None


def _check_weight_suits(share: float, matching: Matching) -> None:
    """Whether what is moved can be computed with this weight: float32, and less, holds none beyond 3.4e38.

    Raises:
        InputError: some cannot; the message names the first.
    """
    size = abs(share)
    if size <= _SUITS_ALL:
        return
    for k, d in enumerate(matching.dsts):
        if size > largest_weight(d.dtype):
            where = path_text(matching.paths(k)[0])
            raise InputError(
                f"`lerp_` wrote nothing: weight is {share}, and {where} is {described(d)}: expected at most "
                f"{largest_weight(d.dtype):.3g} for that dtype"
            )
