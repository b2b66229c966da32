"""How far the weights of each layer moved from one kept snapshot to the next."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..overview import plain_number

if TYPE_CHECKING:
    from ..snapshot import Snapshot

_STATISTICS = ("running_mean", "running_var")  # of normalisation layers: they follow the data and are no weights
_WIDE = frozenset({torch.float32, torch.float64, torch.complex64, torch.complex128})


@dataclasses.dataclass(frozen=True)
class Movement:
    """How far each layer moved between snapshots that follow each other.

    Attributes:
        snapshots: numbers of the snapshots, in order: one more than there are columns.
        layers: names of the modules that have weights of their own, in the model's order.
        relative: for each layer a row: the L2 norm of the change over that of the weights before it. 0 where
            nothing changed, infinite where the weights were all zero before, NaN where one of them is NaN or
            infinite, or the layer is not in both.
    """

    snapshots: tuple[int, ...]
    layers: tuple[str, ...]
    relative: tuple[tuple[float, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON; what is no finite number becomes a string there."""
        return {
            "snapshots": list(self.snapshots),
            "layers": list(self.layers),
            "relative": [list(map(plain_number, row)) for row in self.relative],
        }


def movement(snapshots: Sequence[Snapshot], *, part: str | None = None, most: int = 200) -> Movement:
    """How far each layer moved, from each of the snapshots to the one after it. Reads only.

    Args:
        snapshots: in order.
        part: which part; None for all modules, or, where there are none, whatever has weights.
        most: how many steps from snapshot to snapshot are looked at; of more, every second snapshot, or third.

    Raises:
        InputError: there is no such part.
    """
    if len(snapshots) > most + 1:
        stride = math.ceil((len(snapshots) - 1) / most)  # the same for all, but perhaps the last
        snapshots = [*snapshots[:-1:stride], snapshots[-1]]
    columns: list[dict[str, float]] = []
    layers: dict[str, None] = {}
    norm = _Norms()
    for before, after in pairwise(snapshots):
        columns.append(_between(_layers(before, part), _layers(after, part), norm))
        layers.update(dict.fromkeys(columns[-1]))
    if len(snapshots) == 1:
        layers.update(dict.fromkeys(_layers(snapshots[0], part)))
    return Movement(
        tuple(each.number for each in snapshots),
        tuple(layers),
        tuple(tuple(column.get(name, math.nan) for column in columns) for name in layers),
    )


class _Norms:
    """The norms of tensors that snapshots hold, each computed once: lazy ones share what nobody has written."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Tensor, float]] = {}

    def __call__(self, t: Tensor) -> float:
        if id(t) not in self._known:
            self._known[id(t)] = (t, _norm(t))  # the tensor too, so that no other gets its id
        return self._known[id(t)][1]


def _between(
    before: dict[str, dict[str, Tensor]], after: dict[str, dict[str, Tensor]], norm: _Norms
) -> dict[str, float]:
    found = dict.fromkeys((*before, *after), math.nan)
    for name in before.keys() & after.keys():
        here, there = before[name], after[name]
        if {key: t.shape for key, t in here.items()} == {key: t.shape for key, t in there.items()}:
            found[name] = _relative([(t, there[key]) for key, t in here.items()], norm)
    return found


def _relative(pairs: Sequence[tuple[Tensor, Tensor]], norm: _Norms) -> float:
    """The norm of the change of all tensors together over the norm of what was before."""
    change = math.hypot(*(_norm_of_change(a, b, norm) for a, b in pairs))
    size = math.hypot(*(norm(a) for a, _ in pairs))
    if math.isinf(size) or math.isinf(change):
        return math.nan
    if change == 0 or math.isnan(change):
        return change
    return math.inf if size == 0 else change / size


def _norm_of_change(a: Tensor, b: Tensor, norm: _Norms) -> float:
    if a is b:  # snapshots of the lazy mode share what nobody has written
        return 0.0 if math.isfinite(norm(a)) else math.nan
    return _norm(_wide(b).to(a.device) - _wide(a))


def _wide(t: Tensor) -> Tensor:
    """The tensor in a dtype in which differences of its values are exact enough."""
    if t.dtype in _WIDE:
        return t
    return t.to(torch.complex64 if t.is_complex() else torch.float32)


def _norm(t: Tensor) -> float:
    t = _wide(t)
    return float(torch.linalg.vector_norm(t, dtype=torch.complex128 if t.is_complex() else torch.float64))


def _layers(snapshot: Snapshot, part: str | None) -> dict[str, dict[str, Tensor]]:
    """The weights of each layer, by the layer's name."""
    kinds = {name: saved.kind for name, saved in snapshot._saved.items()}
    if part is not None:
        names = [snapshot._named(part)]
    else:
        names = [name for name, kind in kinds.items() if kind == "module"]
        names = names or [name for name, kind in kinds.items() if kind in ("values", "tensor")]
        names = names or [name for name, kind in kinds.items() if kind != "rng"]
    found: dict[str, dict[str, Tensor]] = {}
    for name in names:
        for layer, key, t in _weights(snapshot, name, is_module=kinds[name] == "module"):
            full = f"{name}.{layer}".rstrip(".") if len(names) > 1 else layer or name
            found.setdefault(full, {})[key] = t
    return found


def _weights(snapshot: Snapshot, name: str, *, is_module: bool) -> Iterator[tuple[str, str, Tensor]]:
    """Layer, name in the layer and tensor of each weight of a part."""
    if is_module:
        named = snapshot._own_state_dict(name).items()
        split = [(*path.rpartition("."), t) for path, t in named]
        found = ((layer, key, t) for layer, _, key, t in split if key not in _STATISTICS)
    else:
        snapshot.wait()
        found = ((path[: path.rfind("[")], path[path.rfind("[") :], t) for path, t in snapshot._named_tensors(name))
    for layer, key, t in found:
        if isinstance(t, Tensor) and t.layout is torch.strided and (t.is_floating_point() or t.is_complex()):
            yield layer, key, t
