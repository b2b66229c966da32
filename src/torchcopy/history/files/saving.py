"""A snapshot as a directory: `snapshot.json`, and a safetensors file for each part that has tensors."""

from __future__ import annotations

import os
import threading
import uuid
from pathlib import Path
from typing import Any, Final

import torch

from ..._errors import InputError
from ..._version import __version__
from ..snapshot import Snapshot
from . import documents
from .contents import Contents, contents_of, tensor_entries
from .directories import IGNORED, Directory, checked_target, replacing, write_file
from .faults import Fault
from .layouts import to_file
from .loading import FORMAT, MANIFEST, VERSION, check_manifest, read_manifest
from .tensor_files import write

_naming: Final = threading.Lock()


def save_snapshot(snapshot: Snapshot, path: str | os.PathLike[str]) -> None:
    """Writes the snapshot as the directory `path`, in the place of one that was saved there before."""
    target = checked_target(path)
    there = _check_replaceable(target)
    snapshot.wait()
    contents = contents_of(snapshot)
    with replacing(target, lambda: _check_still_replaceable(target, there)) as new:
        write_into(new, snapshot, contents)


def write_into(new: Path, snapshot: Snapshot, contents: Contents) -> str:
    """Writes all files of a snapshot into an empty directory.

    Returns:
        The checksum of the manifest.
    """
    checksums: dict[int, str] = {}
    facts: dict[str, Any] = {}
    for file, names in contents.files.items():
        tensors = {name: to_file(contents.tensors[number].tensor) for name, number in names.items()}
        written, of_tensors = write(new / file, tensors, contents.metadata.get(file, {}))
        facts[file] = written.to_json()
        checksums.update(zip(names.values(), of_tensors, strict=True))
    body = {
        "torchcopy": __version__,
        "torch": torch.__version__,
        "id": id_of(snapshot),
        "number": snapshot.number,
        "taken_at": snapshot.taken_at,
        "mode": snapshot.mode,
        "labels": contents.labels,
        "files": facts,
        "slot_count": contents.slot_count,
        "parts": contents.parts,
        "tensors": tensor_entries(contents, checksums),
    }
    try:
        data = documents.encode(FORMAT, VERSION, body)
    except ValueError as error:
        raise InputError(f"nothing was saved: what is no tensor {error}") from None
    slots = contents.slot_count
    try:
        check_manifest(data, [None] * slots + [to_file(stored.tensor) for stored in contents.tensors[slots:]])
    except Fault as fault:
        raise InputError(f"nothing was saved, as it could not be loaded: {fault}") from None
    except RecursionError:
        raise InputError(
            "nothing was saved: this call is too deep inside of others to go through the state"
        ) from None
    write_file(new / MANIFEST, data)
    return documents.checksum_of(data)


def id_of(snapshot: Snapshot) -> str:
    """What tells a snapshot from all others, in files too."""
    with _naming:
        if snapshot._id is None:
            snapshot._id = uuid.uuid4().hex
        return snapshot._id


def _check_still_replaceable(target: Path, before: set[str]) -> None:
    """The same, right before it is replaced; what was looked at before is not read again."""
    if not target.exists() or set(os.listdir(target)) != before:  # noqa: PTH208  # names
        _check_replaceable(target)


def _check_replaceable(target: Path) -> set[str]:
    """Sees to it that nothing is at `target`, or nothing but a snapshot: its files' names.

    Raises:
        InputError: there is something else.
    """
    while target.exists():
        with Directory(target) as directory:
            there = set(directory.names())
            why = _why_not_replaceable(directory, there)
            if why is None:
                return there
            if not directory.was_replaced:  # by another save, meanwhile
                raise InputError(f"{target} {why}")
    return set()


def _why_not_replaceable(directory: Directory, there: set[str]) -> str | None:
    there = there - IGNORED
    if not there:
        return None
    if MANIFEST not in there:
        return (
            f"is a directory with other files ({_some(there)}): a snapshot would replace all of it. "
            "Nothing was written; give the name of a new directory"
        )
    try:
        manifest = read_manifest(directory)
    except Fault as fault:
        return f"is no snapshot that can be read ({fault.file}: {fault}): remove it first. Nothing was written"
    strange = there - {MANIFEST, *manifest["files"]}
    if strange:
        lost = f"is a snapshot with other files beside it ({_some(strange)}): they would be lost"
        return f"{lost}. Nothing was written"
    return None


def _some(names: set[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:3]) + (", …" if len(listed) > 3 else "")
