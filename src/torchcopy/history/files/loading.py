"""A snapshot from a directory: read as if anybody could have written it."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, get_args

import torch
from torch import Tensor

from ..._errors import CorruptSnapshotError, InputError
from ..parts.part import Kind
from ..snapshot import SavedPart, Snapshot
from . import documents
from .directories import Directory, checked_path, find
from .documents import entry, size, sizes
from .faults import Fault, shown
from .layouts import Layout, build, check, in_file
from .loaded_tensors import LoadedTensors
from .tensor_files import DTYPES, FileFacts, MappedFile, read, verify
from .trees import TreeDecoder, check_kind
from .values import ValueDecoder

MANIFEST: Final = "snapshot.json"
FORMAT: Final = "torchcopy snapshot"
VERSION: Final = 1
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}\.safetensors")
_CHECKSUM: Final = re.compile(r"[0-9a-f]{32}")
_DTYPES: Final = {**DTYPES, "complex128": torch.complex128, "complex32": torch.complex32}
_TRIES: Final = 20


def load_snapshot(path: str | os.PathLike[str]) -> Snapshot:
    """The snapshot that was saved as the directory `path`."""
    wanted = checked_path(path)
    for attempt in range(_TRIES):
        place = wanted
        try:
            place = find(wanted)
            with Directory(place) as directory:
                try:
                    return read_snapshot(directory)[0]
                except Fault:
                    if attempt == _TRIES - 1 or not directory.was_replaced:  # by another save, meanwhile
                        raise
        except Fault as fault:
            raise corrupt(place, fault) from None
        except FileNotFoundError:  # removed between two looks
            continue
    raise InputError(f"there is nothing at {wanted}: give the directory that was saved to")


def corrupt(place: Path, fault: Fault) -> CorruptSnapshotError:
    """The error that tells a fault to people."""
    return CorruptSnapshotError(f"{place / fault.file if fault.file else place} {fault}. Nothing was loaded")


def read_snapshot(directory: Directory) -> tuple[Snapshot, str]:
    """The snapshot in a directory, every byte verified, and its manifest's checksum.

    Raises:
        Fault: it is not as it was saved.
    """
    manifest = read_manifest(directory)
    facts = _file_facts(manifest)
    try:
        layouts, places = _parse_tensors(manifest, facts)
        check(layouts)
    except Fault as fault:
        raise Fault(str(fault), MANIFEST) from None
    files = {name: read(directory, name, file_facts) for name, file_facts in facts.items()}
    stored = _verified(files, layouts, places)
    try:
        return _assembled(manifest, layouts, stored, files), manifest["checksum"].removeprefix("xxh3-128:")
    except Fault as fault:
        raise Fault(str(fault), fault.file or MANIFEST) from None
    except RecursionError:
        raise Fault("has too many values inside each other", MANIFEST) from None


def is_whole(directory: Directory, checksum: str) -> bool:
    """Whether a snapshot with this checksum is there, and every byte of its files is as it was written."""
    try:
        return read_snapshot(directory)[1] == checksum
    except Fault:
        return False


def _file_facts(manifest: dict[str, Any]) -> dict[str, FileFacts]:
    try:
        return {name: FileFacts.from_json(x, name) for name, x in manifest["files"].items()}
    except Fault as fault:
        raise Fault(str(fault), MANIFEST) from None


def read_manifest(directory: Directory) -> dict[str, Any]:
    """What `snapshot.json` says, whole, of this format, with names of files that can be in the directory.

    Raises:
        Fault: it is another thing.
    """
    if MANIFEST not in directory.names():
        hint = ": it is a history, see `History.load`" if "history.json" in directory.names() else ""
        raise Fault(f"has no {MANIFEST}, so it is no snapshot{hint}")
    return _manifest_in(directory.read(MANIFEST, documents.LARGEST_BYTES))


def _manifest_in(data: bytes) -> dict[str, Any]:
    try:
        manifest = documents.decode(data, FORMAT, VERSION)
        for name in entry(manifest, "files", dict, "manifest"):
            if not _FILE_NAME.fullmatch(name):
                raise Fault(f"names a file {shown(name)}, which is no name of a file in the directory")
    except Fault as fault:
        raise Fault(str(fault), MANIFEST) from None
    return manifest


def check_manifest(data: bytes, stored: list[Tensor | None]) -> None:
    """Sees to it that a manifest can be read: for who writes it.

    Args:
        data: the whole file.
        stored: each tensor as it is in its file; None for those that only slots name, which are not looked at.

    Raises:
        Fault: it cannot.
    """
    manifest = _manifest_in(data)
    layouts, _ = _parse_tensors(manifest, _file_facts(manifest))
    check(layouts)
    _assembled(manifest, layouts, stored, {})


@dataclasses.dataclass(frozen=True)
class _Places:
    """Where a tensor is written, and the checksum of its bytes."""

    places: tuple[tuple[str, str], ...]
    checksum: str


def _parse_tensors(
    manifest: dict[str, Any], files: Mapping[str, FileFacts]
) -> tuple[list[Layout], list[_Places | None]]:
    layouts: list[Layout] = []
    places: list[_Places | None] = []
    for number, x in enumerate(entry(manifest, "tensors", list, "manifest")):
        where = f"tensors[{number}]"
        dtype = _DTYPES.get(entry(x, "dtype", str, where))
        if dtype is None:
            raise Fault(f"{where} has the dtype {shown(x['dtype'])}, which is not known")
        storage = entry(x, "storage", int, where) if "storage" in x else None
        alias_of = entry(x, "alias_of", int, where) if "alias_of" in x else None
        if alias_of is not None and not 0 <= alias_of < number:
            raise Fault(f"{where} is said to be as tensor {shown(alias_of)}, which does not come before it")
        layout = Layout(
            dtype,
            sizes(entry(x, "shape", list, where), f"{where}: `shape`"),
            sizes(x["strides"], f"{where}: `strides`") if "strides" in x else None,
            storage,
            size(x, "offset", where) if storage is not None else 0,
            alias_of,
        )
        layouts.append(layout)
        if alias_of is not None:
            places.append(None)
            continue
        if entry(x, "bytes", int, where) != layout.nbytes:
            raise Fault(f"{where} has {shown(x['bytes'])} bytes; its shape has {layout.nbytes:,}")
        places.append(_parse_places(x, where, files))
    return layouts, places


def _parse_places(x: dict[str, Any], where: str, files: Mapping[str, FileFacts]) -> _Places:
    digest = entry(x, "checksum", str, where)
    listed = [[entry(x, "file", str, where), entry(x, "name", str, where)]]
    listed += entry(x, "also", list, where) if "also" in x else []
    for place in listed:
        if type(place) is not list or len(place) != 2 or place[0] not in files or type(place[1]) is not str:
            raise Fault(f"{where} stands at {shown(place)}, which is no place in these files")
    if not _CHECKSUM.fullmatch(digest):
        raise Fault(f"{where} has {shown(digest)}, which is no checksum")
    return _Places(tuple((file, name) for file, name in listed), digest)


def _verified(
    files: Mapping[str, MappedFile], layouts: list[Layout], places: list[_Places | None]
) -> list[Tensor | None]:
    """Each tensor as it is in its file; the files have these and no others."""
    waiting = {file: dict(mapped.tensors) for file, mapped in files.items()}
    stored: list[Tensor | None] = []
    for layout, where in zip(layouts, places, strict=True):
        if where is None:
            stored.append(None)
            continue
        dtype, shape = in_file(layout)
        found = []
        for file, name in where.places:
            t = waiting[file].pop(name, None)
            if t is None:
                raise Fault(f"has no tensor {shown(name)}, or the manifest has it twice", file)
            verify(t, name, file, dtype, shape, where.checksum)
            found.append(t)
        stored.append(found[0])
    for file, left in waiting.items():
        if left:
            raise Fault(f"has the tensor {shown(next(iter(left)))}, which was not written", file)
    return stored


def _assembled(
    manifest: dict[str, Any], layouts: list[Layout], stored: list[Tensor | None], files: Mapping[str, MappedFile]
) -> Snapshot:
    count = entry(manifest, "slot_count", int, "manifest")
    if not 0 <= count <= len(stored):
        raise Fault(f"has {len(stored)} tensors; `slot_count` is {shown(count)}")
    extras: dict[int, Tensor] = {}

    def extra(number: Any) -> Tensor:
        if type(number) is not int or not count <= number < len(stored):
            raise Fault(f"there is no array {shown(number)}")
        if layouts[number].alias_of is not None or layouts[number].storage is not None:
            raise Fault(f"tensor {number} shares memory, which arrays do not")
        if number not in extras:
            (extras[number],) = build([layouts[number]], [stored[number]])
        return extras[number]

    def array(number: Any) -> Tensor:
        t = extra(number)
        if t.dtype != torch.uint8 or t.dim() != 1:
            raise Fault(f"tensor {number} is no array")
        return t

    values = ValueDecoder(extra, array)
    trees = TreeDecoder(values, count)
    saved: dict[str, SavedPart] = {}
    for name, x in entry(manifest, "parts", dict, "manifest").items():
        kind = entry(x, "kind", str, f"parts[{shown(name)}]")
        if kind not in get_args(Kind) or "state" not in x:
            raise Fault(f"the part {shown(name)} has the kind {shown(kind)}, which is not known, or no state")
        try:
            tree = trees.decode(x["state"])
            check_kind(kind, tree)
        except Fault as fault:
            raise Fault(f"the part {shown(name)}: {fault}") from None
        saved[name] = SavedPart(kind, tree)
    snapshot = Snapshot(
        labels=_labels(entry(manifest, "labels", dict, "manifest"), values),
        number=size(manifest, "number", "manifest"),
        mode="loaded",
        saved=saved,
        places=range(count),
        held=LoadedTensors(layouts[:count], stored[:count], tuple(files.values())),
        taken_at=entry(manifest, "taken_at", float, "manifest"),
    )
    snapshot._id = entry(manifest, "id", str, "manifest")
    return snapshot


def _labels(labels: dict[str, Any], values: ValueDecoder) -> dict[str, Any]:
    return checked_labels({name: values.decode(x) for name, x in labels.items()})


def checked_labels(decoded: dict[str, Any]) -> dict[str, Any]:
    """Labels that were read, if they are labels.

    Raises:
        Fault: they are not.
    """
    for name, value in decoded.items():
        if not (value is None or type(value) in (bool, int, float, str)):
            raise Fault(f"the label {shown(name)} is {shown(value)}, which is no number, string or None")
    return decoded
