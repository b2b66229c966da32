"""What moved between two states of a run."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from ..._errors import InputError
from ..._tensors import dtype_name
from ..snapshot import Snapshot
from .comparison_records import Comparison, ModuleMoved, NotCompared, TensorMoved
from .difference_sums import DifferenceSums, difference_sums, sums_of_equal
from .named_states import (
    NamedState,
    Weights,
    check_part,
    described_tensor,
    is_extra_state,
    read_state,
    same_memory,
)

# The sums of tensors that lazy snapshots share, which nobody writes: read once, however often they are compared.
_of_lasting: Any = WeakIdKeyDictionary()


def compare(a: Weights, b: Weights, *, part: str | None = None) -> Comparison:
    """What moved from `a` to `b`, for each tensor and, over all its tensors, for each module.

    Everything is computed in float64, a piece at a time, on the device where both are, or on the CPU. Tensors are
    paired by name, the names of a compiled module being those of the module in it. Snapshots in lazy mode share
    what nobody wrote between them: that is known to be equal without a look, and its norm is read once.

    What counts:

    - NaN equals NaN, and an infinity equals itself; 0.0 equals -0.0. Such elements are left out of every norm.
    - An element that is NaN or infinite on one side only, or in another way on the other, has moved infinitely
      far: `l2`, `max_abs` and `relative` are infinite, and there is no cosine.
    - Integers and booleans count as numbers, what differs being found out without rounding. Of complex numbers the
      absolute value of the difference counts, and the cosine is the real part of the inner product over the norms.
    - Tensors of two dtypes are compared by value. What only one side has, and what has two shapes, is listed.

    The four questions: no storage is shared with the result. No graph is kept. It waits for devices that hold one
    of the two, and for bytes of a snapshot that are on their way. No input is changed.

    Args:
        a: a snapshot, a module, or a mapping of tensors such as a state_dict.
        b: the same, of any of these kinds.
        part: which part of a snapshot; None for its only module, else for its only part with tensors.

    Raises:
        InputError: one is nothing of these, or a snapshot has no such part.

    Example:
        >>> import torch, torchcopy as tc
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
        >>> history = tc.History(model=model)
        >>> before = history.take()
        >>> with torch.no_grad():
        ...     _ = model[1].weight.mul_(1.5)
        >>> moved = tc.compare(before, model)
        >>> moved.tensors[0].name, round(moved.tensors[0].relative, 6)
        ('1.weight', 0.5)
        >>> moved.module("0").changed
        0.0
    """
    check_part(part, isinstance(a, Snapshot) or isinstance(b, Snapshot))
    here, there = read_state(a, part, "a"), read_state(b, part, "b")
    for where, state in (("a", here), ("b", there)):
        if not state.tensors:
            raise InputError(f"`{where}` has no tensors to compare: {state.said}")
    return _compared(here, there)


def _compared(a: NamedState, b: NamedState) -> Comparison:
    moved: list[TensorMoved] = []
    missing: list[NotCompared] = []
    modules: dict[str, dict[object, DifferenceSums]] = {"": {}}
    known: dict[object, DifferenceSums] = {}
    for name, t in a.tensors.items():
        if is_extra_state(name):
            continue
        other = b.tensors.get(name)
        if other is None:
            missing.append(_missing(name, t, None))
            continue
        key = (same_memory(t), same_memory(other))
        sums = known.get(key)
        if sums is None:
            try:
                sums = sums_of_pair(t, other, lasting=a.lasting and b.lasting)
            except (RuntimeError, TypeError) as error:
                missing.append(_missing(name, t, other, error))
                continue
            known[key] = sums
        moved.append(_moved(name, t, other, sums))
        for module in _modules_of(name):
            modules.setdefault(module, {})[key] = sums  # tied weights once
    missing += [
        _missing(name, None, t)
        for name, t in b.tensors.items()
        if name not in a.tensors and not is_extra_state(name)
    ]
    moved.sort(key=lambda each: (-each.relative, -each.l2))
    return Comparison(
        a.said,
        b.said,
        tuple(moved),
        tuple(_module_moved(name, own) for name, own in modules.items()),
        tuple(missing),
    )


def sums_of_pair(t: Tensor, other: Tensor, *, lasting: bool) -> DifferenceSums:
    """The sums of a pair; `lasting` says that nobody will ever write either of these tensor objects.

    Raises:
        RuntimeError: they cannot be compared; the message says why.
    """
    if t.is_meta or other.is_meta:
        raise RuntimeError("meta tensors have no values")
    if t.shape != other.shape:
        raise RuntimeError("the shapes differ")
    if same_memory(t) != same_memory(other):
        return difference_sums(t, other)
    if not (lasting and t is other):
        return sums_of_equal(t)
    sums: DifferenceSums | None = _of_lasting.get(t)
    if sums is None:
        sums = _of_lasting[t] = sums_of_equal(t)
    return sums


def _modules_of(name: str) -> list[str]:
    """The modules that a tensor is in: of `a.b.weight` the whole, `a` and `a.b`."""
    path = name.split(".")
    return [".".join(path[:k]) for k in range(len(path))]


def _moved(name: str, t: Tensor, other: Tensor, sums: DifferenceSums) -> TensorMoved:
    dtypes = dict.fromkeys((dtype_name(t.dtype), dtype_name(other.dtype)))
    return TensorMoved(name=name, shape=tuple(t.shape), dtype=" → ".join(dtypes), **sums.measures())


def _module_moved(name: str, own: dict[object, DifferenceSums]) -> ModuleMoved:
    return ModuleMoved(name=name, tensors=len(own), **sum(own.values(), DifferenceSums()).measures())


def _missing(name: str, a: Tensor | None, b: Tensor | None, error: Exception | None = None) -> NotCompared:
    here, there = (None if t is None else described_tensor(t) for t in (a, b))
    if there is None:
        why = f"only in a: {here}"
    elif here is None:
        why = f"only in b: {there}"
    else:
        why = f"{here} in a, {there} in b: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
    return NotCompared(name, here, there, why)
