"""A history as a directory: each snapshot a directory of its own, and `history.json`, which names them.

Snapshots that are there are not written again. `history.json` is renamed to its place last; what it does not name
is removed afterwards. Whenever a save is killed, it names snapshots that are whole.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import torch
import xxhash

from ..._errors import InputError
from ..._version import __version__
from ...semantics.sources import parse_device
from ..parts.random_numbers import SharedRandomPart
from ..retention import kept, parse_keep, parse_keep_best, parse_max_bytes
from ..snapshot import Snapshot
from . import documents
from .contents import contents_of, labels_to_save
from .directories import IGNORED, Directory, checked_path, checked_target, find, lock, remove, sync, write_file
from .documents import entry, size
from .faults import Fault, shown
from .loading import MANIFEST, checked_labels, corrupt, is_whole, read_snapshot
from .saving import id_of, write_into
from .values import Refusals, ValueDecoder, ValueEncoder, no_tensor

if TYPE_CHECKING:
    from ..history import History

INDEX: Final = "history.json"
FORMAT: Final = "torchcopy history"
VERSION: Final = 1
H = TypeVar("H", bound="History")
Taken = list[tuple[int, dict[str, Any]]]
_DIRECTORY: Final = re.compile(r"\d{6,12}-[0-9a-f]{12}")
_OPTIONS: Final = ("keep", "keep_best", "mode", "rng", "max_bytes", "device")
_TRIES: Final = 5
_NOTHING: Final[dict[str, Any]] = {"nothing": None}


# --- saving ----------------------------------------------------------------------------------------------------


def save_history(history: History, path: str | os.PathLike[str]) -> None:
    """Writes the history as the directory `path`; snapshots that it has there already are not written again."""
    target = checked_target(path)
    _check_is_history(target)
    history.wait()
    with history._lock:
        snapshots, body = list(history), _index_of(history)
        labels = {id(s): labels_to_save(s.labels) for s in snapshots}
    for snapshot in snapshots:  # a thread may have taken one meanwhile
        snapshot.wait()
    if not target.exists():
        for snapshot in snapshots:  # before there is a directory, what cannot be saved is refused
            contents_of(snapshot, labels[id(snapshot)])
    keys = {id(s): _key_of(s, labels[id(s)]) for s in snapshots}
    with _locked(target):
        there = _saved_snapshots(target, set(keys.values()))
        missing = [s for s in snapshots if keys[id(s)] not in there]
        contents = {id(s): contents_of(s, labels[id(s)]) for s in missing}
        made: list[Path] = []
        try:
            entries = []
            for snapshot in snapshots:
                if id(snapshot) in contents:
                    place = target / f"{snapshot.number:06d}-{secrets.token_hex(6)}"
                    place.mkdir()
                    made.append(place)
                    checksum = write_into(place, snapshot, contents[id(snapshot)])
                    sync(place)
                else:
                    place, checksum = there[keys[id(snapshot)]]
                entries.append({"directory": place.name, "id": keys[id(snapshot)], "checksum": checksum})
            sync(target)
            _write_index(target, {**body, "snapshots": entries})
        except BaseException:
            named = _named(target)  # the new list may be in its place already
            for place in made:
                if place.name not in named:
                    remove(place)
            raise
        _remove_others(target, {e["directory"] for e in entries})


def _index_of(history: History) -> dict[str, Any]:
    """What the list says of the history, but for its snapshots.

    Raises:
        InputError: a label or an option is none that could be loaded.
    """
    options = {
        "keep": history.keep,
        "keep_best": history.keep_best,
        "mode": history.mode,
        "rng": any(isinstance(part, SharedRandomPart) for part in history._parts.values()),
        "max_bytes": history.max_bytes,
        "device": None if history.device is None else str(history.device),
    }
    try:
        _checked_options(options)
    except Fault as fault:
        raise InputError(f"nothing was saved: the history {fault}") from None
    labels = ValueEncoder(Refusals(), no_tensor, no_tensor)  # of checked labels none is refused
    return {
        "torchcopy": __version__,
        "options": options,
        "count": history._count,
        "taken": [[number, labels.encode(labels_to_save(given), "labels")] for number, given in history._taken],
    }


def _write_index(target: Path, body: dict[str, Any]) -> None:
    temporary = target / f"{INDEX}.{secrets.token_hex(6)}.part"
    try:
        write_file(temporary, documents.encode(FORMAT, VERSION, body))
        temporary.replace(target / INDEX)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(target)


def _saved_snapshots(target: Path, keys: set[str]) -> dict[str, tuple[Path, str]]:
    """Which of these snapshots are there already, every byte as it was: directory and checksum of the manifest."""
    found: dict[str, tuple[Path, str]] = {}
    with contextlib.suppress(Fault), Directory(target) as directory:
        for key, name, wanted in _entries(_read_index(directory)):
            if key not in keys:
                continue
            with contextlib.suppress(OSError), Directory(target / name) as place:
                if is_whole(place, wanted):
                    found[key] = (target / name, wanted)
    return found


def _named(target: Path) -> set[str]:
    """The directories that the list on the disk names."""
    with contextlib.suppress(Fault), Directory(target) as directory:
        return {name for _, name, _ in _entries(_read_index(directory))}
    return set()


def _key_of(snapshot: Snapshot, labels: dict[str, Any]) -> str:
    """What tells a snapshot as it is now from all others: its labels are the user's to change."""
    return f"{id_of(snapshot)}-{xxhash.xxh3_64_hexdigest(repr(labels).encode(errors='surrogatepass'))}"


def _remove_others(target: Path, named: set[str]) -> None:
    """Removes what no history names: snapshots of earlier saves, and what killed ones have left."""
    for other in target.iterdir():
        if _DIRECTORY.fullmatch(other.name) and other.name not in named and not other.is_symlink():
            remove(other)
        elif other.name.startswith(f"{INDEX}.") and other.suffix == ".part":
            other.unlink(missing_ok=True)


def _check_is_history(target: Path) -> None:
    """Sees to it that nothing is at `target`, or a history.

    Raises:
        InputError: there is something else.
    """
    if not target.exists():
        return
    with Directory(target) as directory:
        there = set(directory.names())
        if INDEX in there:
            try:
                _read_index(directory)
            except Fault as fault:
                raise InputError(
                    f"{target} is no history that can be read ({fault.file}: {fault}): remove it first. "
                    "Nothing was written"
                ) from None
            return
    ours = IGNORED | {name for name in there if _DIRECTORY.fullmatch(name) or name.endswith(".part")}
    strange = sorted(there - ours)
    if strange:
        kind = "a snapshot" if MANIFEST in there else f"a directory with other files ({', '.join(strange[:3])})"
        raise InputError(f"{target} is {kind}, no history: give the name of a new directory. Nothing was written")


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Makes the directory if it is not there, and keeps a second save to it waiting. If all fails, it goes."""
    while True:
        made = not target.exists()
        target.mkdir(exist_ok=True)
        if os.name == "nt":  # opens no directories
            descriptor = None
            break
        try:
            descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # the save that had made it failed, and removed it
            continue
        lock(descriptor, wait=True)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), target.stat()):
                break
        os.close(descriptor)
    try:
        if made:
            sync(target.parent)
        yield
    except BaseException:
        if made:
            with contextlib.suppress(OSError):  # another save has put something there
                target.rmdir()
        raise
    finally:
        if descriptor is not None:
            os.close(descriptor)


# --- loading ---------------------------------------------------------------------------------------------------


def load_history(cls: type[H], path: str | os.PathLike[str], given: dict[str, Any]) -> H:
    """The history that was saved as `path`, of live objects and with options: what is not given is as it was."""
    options, count, taken, snapshots = _read_history(path)
    chosen = {name: given.get(name, saved) for name, saved in options.items()}
    objects = {name: target for name, target in given.items() if name not in _OPTIONS}
    known = {name: saved.kind for each in snapshots for name, saved in each._saved.items()}
    if objects:
        history = _of_objects(cls, chosen, objects, given)
    else:  # to look at, and to build from: on any machine
        history = cls(**{**chosen, "device": given.get("device")}, **_NOTHING)
        history._parts = {}
        if "device" not in given and options["device"] is not None:
            history.device = torch.device(options["device"])
    for name in objects:
        part = history._parts[name]
        if snapshots and name not in known:
            raise InputError(f"no snapshot there has a part {name!r}: they have {', '.join(known)}")
        if part.kind != known.get(name, part.kind):
            what = f"got {part.kind!r}: {type(part.target).__name__}"
            raise InputError(f"`{name}` was saved as a part of kind {known[name]!r}; {what}")
    for snapshot in snapshots:
        snapshot._parts = dict(history._parts)
    history._snapshots = kept(snapshots, history.keep, history.keep_best)
    history._count = count
    of_kept = {each.number: each.labels for each in snapshots}  # records follow what is done to these
    history._taken.extend((number, of_kept.get(number, labels)) for number, labels in taken)
    return history


def _of_objects(cls: type[H], options: dict[str, Any], objects: dict[str, Any], given: dict[str, Any]) -> H:
    if "device" not in given and options["device"] is not None:
        try:
            parse_device(options["device"])
        except InputError as error:
            raise InputError(
                f"the history was saved with `device={options['device']!r}`: {error}, or load it with "
                "`device=None`, which keeps the bytes where they are"
            ) from None
    return cls(**options, **objects)


def _read_history(path: str | os.PathLike[str]) -> tuple[dict[str, Any], int, Taken, list[Snapshot]]:
    """The options, how many snapshots had been taken, and those that were kept."""
    wanted = checked_path(path)
    for attempt in range(_TRIES):
        place = wanted
        try:
            place = find(wanted)
            with Directory(place) as directory:
                index = _read_index(directory)
                try:
                    return _loaded(place, index)
                except Fault:
                    if attempt == _TRIES - 1 or _read_index(directory) == index:  # else saved again meanwhile
                        raise
        except Fault as fault:
            raise corrupt(place, fault) from None
        except FileNotFoundError:  # removed between two looks
            continue
    raise InputError(f"there is nothing at {wanted}: give the directory that was saved to")


def _loaded(place: Path, index: dict[str, Any]) -> tuple[dict[str, Any], int, Taken, list[Snapshot]]:
    options = _checked_options(entry(index, "options", dict, INDEX))
    snapshots = []
    for key, name, wanted in _entries(index):
        if not (place / name).is_dir() or (place / name).is_symlink():
            raise Fault("is missing", name)
        with Directory(place / name) as directory:
            try:
                snapshot, checksum = read_snapshot(directory)
            except Fault as fault:
                raise Fault(str(fault), f"{name}/{fault.file}" if fault.file else name) from None
        if checksum != wanted or _key_of(snapshot, snapshot.labels) != key:
            raise Fault("is another snapshot than the one that was saved there", name)
        snapshots.append(snapshot)
    count = size(index, "count", INDEX)
    return options, count, _taken(entry(index, "taken", list, INDEX)), snapshots


def _taken(listed: list[Any]) -> Taken:
    values = ValueDecoder(no_tensor, no_tensor)
    found = []
    for x in listed:
        if type(x) is not list or len(x) != 2 or type(x[0]) is not int:
            raise Fault(f"has {shown(x)} among what was taken", INDEX)
        labels = values.decode(x[1])
        if type(labels) is not dict:
            raise Fault(f"has {shown(x)} among what was taken", INDEX)
        found.append((x[0], checked_labels(labels)))
    return found


def _checked_options(options: dict[str, Any]) -> dict[str, Any]:
    try:
        if set(options) != set(_OPTIONS) or options["mode"] not in ("eager", "lazy", "background"):
            raise InputError(f"its options are {shown(options)}")
        entry(options, "rng", bool, "options")
        parse_keep(options["keep"]), parse_keep_best(options["keep_best"]), parse_max_bytes(options["max_bytes"])
        if entry(options, "device", (str, type(None)), "options") is not None:
            torch.device(options["device"])
    except (InputError, RuntimeError, TypeError, Fault) as error:
        raise Fault(f"has options that are none: {error}", INDEX) from None
    return options


def _read_index(directory: Directory) -> dict[str, Any]:
    names = directory.names()
    if INDEX not in names:
        hint = ": it is a snapshot, see `Snapshot.load`" if MANIFEST in names else ""
        raise Fault(f"has no {INDEX}, so it is no history{hint}")
    try:
        return documents.decode(directory.read(INDEX, documents.LARGEST_BYTES), FORMAT, VERSION)
    except Fault as fault:
        raise Fault(str(fault), INDEX) from None


def _entries(index: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Id, directory and manifest's checksum of each snapshot."""
    found = []
    for number, x in enumerate(entry(index, "snapshots", list, INDEX)):
        where = f"snapshots[{number}]"
        try:
            identity, name, checksum = (entry(x, key, str, where) for key in ("id", "directory", "checksum"))
            if not _DIRECTORY.fullmatch(name):
                raise Fault(f"{where} names a directory {shown(name)}, which is no snapshot's")
        except Fault as fault:
            raise Fault(str(fault), INDEX) from None
        found.append((identity, name, checksum))
    return found
