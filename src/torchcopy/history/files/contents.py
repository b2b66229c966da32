"""What of a snapshot goes into which file, found out before anything is written."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from ... import _torch_private
from ..._errors import InputError
from ..._tensors import describe as described
from ..._tensors import dtype_name, has_storage
from ..labels import checked_label
from ..state_trees import paths
from .faults import Fault
from .layouts import Layout, check_gaps, describe
from .tensor_files import DTYPES
from .trees import TreeEncoder, check_kind, slots
from .values import Refusals, ValueEncoder, is_text

if TYPE_CHECKING:
    from ..snapshot import Snapshot

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_LISTED: Final = 30
_SAVED_DTYPES: Final = frozenset({*DTYPES.values(), torch.complex128, torch.complex32})


@dataclasses.dataclass
class StoredTensor:
    """A tensor and where it is written.

    Attributes:
        tensor: as the snapshot holds it.
        layout: how it lies there.
        places: (file, name), the first of which is read again; none for what has the place of another.
    """

    tensor: Tensor
    layout: Layout
    places: list[tuple[str, str]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Contents:
    """All that is to be written for a snapshot.

    Attributes:
        parts: kind and state of each part, as JSON.
        labels: as JSON.
        tensors: those that slots name first, then those of arrays and of rare containers.
        slot_count: how many the first ones are.
        files: the names in each file, with the number of the tensor.
        metadata: of each file: names that are not in it, with the names that stand for the same tensor.
    """

    parts: dict[str, Any]
    labels: Any
    tensors: list[StoredTensor]
    slot_count: int
    files: dict[str, dict[str, int]]
    metadata: dict[str, dict[str, str]]


def labels_to_save(labels: Mapping[Any, Any]) -> dict[str, Any]:
    """Labels as they are saved: they are the user's to change after `History.take` has checked them.

    Raises:
        InputError: one is no number, string or None.
    """
    found = {}
    for name, value in labels.items():
        if not isinstance(name, str) or not is_text(name):
            raise InputError(f"nothing was saved: the name of a label must be a text; got {name!r}")
        try:
            found[str.__str__(name)] = checked_label(name, value)
        except InputError as error:
            raise InputError(f"nothing was saved: {error}") from None
    return found


def contents_of(snapshot: Snapshot, labels: dict[str, Any] | None = None) -> Contents:
    """What is to be written.

    Args:
        snapshot: which one.
        labels: those that are saved, from `labels_to_save`; None for those that it has now.

    Raises:
        InputError: safetensors and JSON cannot hold it all. Every such thing is listed.
    """
    refusals = Refusals()
    checked = labels_to_save(snapshot.labels) if labels is None else labels
    try:
        contents = _contents(snapshot, checked, refusals)
    except RecursionError:
        raise InputError(
            "nothing was saved: this call is too deep inside of others to go through the state"
        ) from None
    if not refusals.lines:
        return contents
    if len(refusals.lines) == 1:
        raise InputError(f"nothing was saved: {refusals.lines[0]}")
    listed = "".join(f"\n  {line}" for line in refusals.lines)
    raise InputError(f"nothing was saved, as {len(refusals.lines)} things cannot be:{listed}")


def _contents(snapshot: Snapshot, labels: dict[str, Any], refusals: Refusals) -> Contents:
    held, places = snapshot._tensors(), snapshot._places
    _refuse_tensors(snapshot, refusals)
    if refusals.lines:
        stored = [StoredTensor(t, Layout(t.dtype, ())) for t in held]
    else:
        layouts = describe(held, _torch_private.storage_ids(held))
        stored = [StoredTensor(t, layout) for t, layout in zip(held, layouts, strict=True)]
    numbers: dict[int, int] = {}
    extra_paths: dict[int, str] = {}

    def extra(t: Tensor, path: str) -> int:
        number = numbers.get(id(t))
        if number is None:
            why = _why_not(t)
            if why is not None:
                refusals.refuse(path, why)
                return -1
            number = numbers[id(t)] = len(stored)
            extra_paths[number] = path
            (layout,) = describe([t], [0])
            stored.append(StoredTensor(t, layout))
        return number

    values = ValueEncoder(refusals, extra, extra)
    trees = TreeEncoder(refusals, values, lambda slot: places[slot])
    parts = {}
    for name, saved in snapshot._saved.items():
        try:
            check_kind(saved.kind, saved.tree) if saved.kind == "optimizer" else None
        except Fault as fault:
            refusals.refuse(name, str(fault))
        parts[name] = {"kind": saved.kind, "state": trees.encode(saved.tree, name)}
    encoded = {name: values.encode(value, f"labels[{name!r}]") for name, value in labels.items()}
    contents = Contents(parts, encoded, stored, len(held), {}, {})
    if not refusals.lines:
        path_of = {**dict(_paths(snapshot)), **extra_paths}
        for k in check_gaps([s.layout for s in stored]):
            gaps = "a view with far more memory between its elements than in them: save a contiguous copy of it"
            refusals.refuse(path_of[k], gaps)
        for k, s in enumerate(stored):
            if s.layout.storage is not None and (s.tensor.is_conj() or s.tensor.is_neg()):
                refusals.refuse(path_of[k], "a lazily conjugated or negated view of memory that others view")
        _place(snapshot, contents, extra_paths)
    return contents


def _paths(snapshot: Snapshot) -> list[tuple[int, str]]:
    return [
        (snapshot._places[slot], f"{name}{path}")
        for name, saved in snapshot._saved.items()
        for slot, path in paths(saved.tree)
    ]


def _refuse_tensors(snapshot: Snapshot, refusals: Refusals) -> None:
    why = [_why_not(t) for t in snapshot._tensors()]
    if any(why):
        for number, path in _paths(snapshot):
            if (reason := why[number]) is not None:
                refusals.refuse(path, reason)


def _why_not(t: Tensor) -> str | None:
    """Why a safetensors file cannot hold a tensor; None if it can."""
    if type(t) not in (Tensor, torch.nn.Parameter):
        return f"a {type(t).__name__}, of which safetensors would keep the numbers only"
    if t.is_nested or t.layout is not torch.strided:
        layout = "nested" if t.is_nested else str(t.layout).removeprefix("torch.")
        return f"a {layout} tensor, which safetensors cannot hold"
    if t.is_quantized or t.dtype not in _SAVED_DTYPES:
        return f"{dtype_name(t.dtype)}, which safetensors cannot hold"
    if t.is_meta or not has_storage(t):
        return f"{described(t)}, which has no values"
    return None


# --- files and names -------------------------------------------------------------------------------------------


class _Namer:
    """File names for parts: their own names where these do as file names."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def name(self, part: str, suffix: str = "") -> str:
        stem = part if _PLAIN_NAME.fullmatch(part) else f"part-{len(self._taken)}"
        while f"{stem}{suffix}".lower() in self._taken:  # on some systems A and a are one file
            stem = f"{stem}-{len(self._taken)}"
        self._taken.add(f"{stem}{suffix}".lower())
        return f"{stem}{suffix}.safetensors"


def _place(snapshot: Snapshot, contents: Contents, extra_paths: dict[int, str]) -> None:
    """Decides where each tensor is written. Files of modules have all that is in their `state_dict`."""
    namer = _Namer()
    modules = [name for name, saved in snapshot._saved.items() if saved.kind == "module"]
    others = [name for name in snapshot._saved if name not in modules]
    remaining: list[tuple[str, list[tuple[tuple[Any, ...], int]]]] = []
    for part in modules:
        listed = list(slots(snapshot._saved[part].tree))
        named = [(keys[1:], slot) for keys, slot in listed if keys[0] == "state_dict"]
        _place_module(contents, namer.name(part), [(k, snapshot._places[s]) for k, s in named])
        remaining.append((part, [(keys[1:], slot) for keys, slot in listed if keys[0] != "state_dict"]))
    for part, listed in remaining:
        if listed:
            _place_others(contents, namer.name(part, ".non_persistent"), listed, snapshot._places.__getitem__)
    for part in others:
        listed = list(slots(snapshot._saved[part].tree))
        if listed:
            _place_others(contents, namer.name(part), listed, snapshot._places.__getitem__)
    if extra_paths:
        file = namer.name("values", ".arrays")
        for number, path in extra_paths.items():
            _put(contents, file, _fit_name(path, contents.files.get(file, {})), number)


def _place_module(contents: Contents, file: str, named: list[tuple[tuple[Any, ...], int]]) -> None:
    """Tensors that share their place are written once, under the first of their names: as `save_model` has it."""
    names_of: dict[int, list[str]] = {}
    taken: dict[str, int] = {}
    for keys, number in named:
        alias = contents.tensors[number].layout.alias_of
        name = _fit_name(keys[0] if len(keys) == 1 else ".".join(map(str, keys)), taken)
        taken[name] = number
        names_of.setdefault(number if alias is None else alias, []).append(name)
    for number, names in names_of.items():
        kept = min(names)
        _put(contents, file, kept, number)
        contents.metadata.setdefault(file, {}).update({name: kept for name in names if name != kept})


def _place_others(
    contents: Contents, file: str, listed: list[tuple[tuple[Any, ...], int]], number_of: Callable[[int], int]
) -> None:
    """What is not in a file yet."""
    for keys, slot in listed:
        number = number_of(slot)
        stored = contents.tensors[number]
        if not stored.places and stored.layout.alias_of is None:
            name = ".".join(map(str, keys)) or "tensor"
            _put(contents, file, _fit_name(name, contents.files.get(file, {})), number)


def _put(contents: Contents, file: str, name: str, number: int) -> None:
    contents.files.setdefault(file, {})[name] = number
    contents.tensors[number].places.append((file, name))


def _fit_name(name: str, taken: dict[str, int]) -> str:
    """`name` as a safetensors file can have it, once."""
    if name == "__metadata__" or not is_text(name):
        name = f"tensor {len(taken)}"
    fit = name
    while fit in taken:
        fit = f"{name} {len(taken)}"
    return fit


def tensor_entries(contents: Contents, checksums: dict[int, str]) -> list[dict[str, Any]]:
    """What the manifest says of each tensor."""
    entries = []
    for number, stored in enumerate(contents.tensors):
        layout = stored.layout
        entry: dict[str, Any] = {}
        if layout.alias_of is not None:
            entry["alias_of"] = layout.alias_of
        else:
            (entry["file"], entry["name"]), *also = stored.places
            entry["checksum"] = checksums[number]
            entry["bytes"] = layout.nbytes
            if also:
                entry["also"] = also
        entry["dtype"], entry["shape"] = dtype_name(layout.dtype), layout.shape
        if layout.strides is not None:
            entry["strides"] = list(layout.strides)
        if layout.storage is not None:
            entry["storage"], entry["offset"] = layout.storage, layout.offset
        if stored.tensor.device.type != "cpu":
            entry["device"] = str(stored.tensor.device)
        entries.append(entry)
    return entries
