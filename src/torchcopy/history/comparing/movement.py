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
from .comparison import sums_of_pair
from .difference_sums import DifferenceSums
from .named_states import same_memory

if TYPE_CHECKING:
    from ..snapshot import Snapshot

_STATISTICS = ("running_mean", "running_var")  # of normalisation layers: they follow the data and are no weights


@dataclasses.dataclass(frozen=True)
class Movement:
    """How far each layer moved between snapshots that follow each other.

    Attributes:
        snapshots: numbers of the snapshots, in order: one more than there are columns.
        layers: names of the modules that have weights of their own, in the model's order.
        relative: for each layer a row: the L2 norm of the change over that of the weights before it, as `compare`
            counts: 0 where nothing changed, infinite where the weights were all zero before or where one became
            or ceased to be NaN or infinite. NaN where the layer is not in both, or has other shapes.
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
    for before, after in pairwise(snapshots):
        columns.append(_between(before, after, part))
        layers.update(dict.fromkeys(columns[-1]))
    if len(snapshots) == 1:
        layers.update(dict.fromkeys(_layers(snapshots[0], part)))
    return Movement(
        tuple(each.number for each in snapshots),
        tuple(layers),
        tuple(tuple(column.get(name, math.nan) for column in columns) for name in layers),
    )


def _between(before: Snapshot, after: Snapshot, part: str | None) -> dict[str, float]:
    lasting = before.mode == after.mode == "lazy"
    here, there = _layers(before, part), _layers(after, part)
    found = dict.fromkeys((*here, *there), math.nan)
    for name in here.keys() & there.keys():
        if here[name].keys() == there[name].keys():
            pairs = [(t, there[name][key]) for key, t in here[name].items()]
            found[name] = _relative(pairs, lasting=lasting)
    return found


def _relative(pairs: Sequence[tuple[Tensor, Tensor]], *, lasting: bool) -> float:
    """What `compare` says of all these together; NaN where one cannot be compared."""
    sums: dict[object, DifferenceSums] = {}  # tied weights once
    try:
        for t, other in pairs:
            key = (same_memory(t), same_memory(other))
            if key not in sums:
                sums[key] = sums_of_pair(t, other, lasting=lasting)
    except (RuntimeError, TypeError):
        return math.nan
    relative: float = sum(sums.values(), DifferenceSums()).measures()["relative"]
    return relative


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
