"""What an earlier run has found in files that are as they were.

One SQLite file holds it for all projects of a user; processes may use it at the same time, and one that is broken
is removed. What was found in a file is taken from there if the file has the same content, was checked for the same
codes, and nothing that its imports led to has changed since: the same modules have to be found at the same places,
with the same content. Another version of torchcopy or of Python has another file.

That a content is the same is told by size and times of the file, or else by its digest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import math
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__
from .project import module_path
from .reading import digest_of

if TYPE_CHECKING:
    import sqlite3

_DAY_SECONDS = 24 * 3600
_KEPT_SECONDS = 60 * _DAY_SECONDS
_OTHERS_KEPT_SECONDS = 30 * _DAY_SECONDS  # files of other versions
_MOST_IN_QUERY = 500
_UNSURE_NS = 2_000_000_000  # a file that was written so shortly before it was read may have been written once more
_COLUMNS = "path, mtime, ctime, size, seen, since, digest, lookups, checked, codes, result"
_TABLE = """
create table if not exists files (
    path text primary key, mtime integer, ctime integer, size integer, seen integer, since integer, digest blob,
    lookups text, checked integer, codes text, result text
) without rowid
"""
_TYPES = (str, int, int, int, int, int, bytes, str, int, str, str)
_NAME = re.compile(r"lint-[0-9a-f]+\.sqlite(-journal|-wal|-shm)?")
Lookups = dict[str, str | None]


@dataclasses.dataclass(slots=True)
class Entry:
    """What is kept of a file.

    Attributes:
        path: absolute.
        mtime: when it was written, in nanoseconds.
        ctime: when it or its rights were changed.
        size: in bytes.
        seen: a moment shortly before it was read last.
        since: when the run began that first saw it as it is, with its imports leading where they do; when that run
            ended, if others had seen it otherwise meanwhile.
        digest: of its content.
        lookups: the modules that were looked for on its behalf, and where they were found.
        checked: when the run began that it was checked in.
        codes: that it was checked for; empty where it was only read for the sake of another.
        result: what was found, as JSON.
    """

    path: str
    mtime: int
    ctime: int
    size: int
    seen: int
    since: int
    digest: bytes
    lookups: Lookups
    checked: int = 0
    codes: str = ""
    result: str = ""


class Cache:
    """Entries by path. One that cannot be used is empty and keeps nothing: a run does without."""

    def __init__(self, folder: str | None = None) -> None:
        self._path = os.path.join(folder or default_folder(), f"lint-{_fingerprint()}.sqlite")
        self._entries: dict[str, Entry] = {}  # that hold
        self._rows: dict[str, tuple[Any, ...]] = {}  # as they were when this run began
        self._changed: set[str] = set()
        self._now = time.time_ns()

    def load(self, paths: Iterable[str]) -> None:
        """Reads what is known of some files and of all that their imports led to; forgets what does not hold."""
        entries: dict[str, Entry] = {}
        waiting = set(filter(_is_storable, paths))
        asked: set[str] = set()
        try:
            with self._open() as connection:
                while waiting:
                    asked |= waiting
                    rows = {row[0]: row for row in _fetch(connection, sorted(waiting))}
                    self._rows.update(rows)
                    found = [entry for entry in map(_entry, rows.values()) if entry is not None]
                    entries.update((entry.path, entry) for entry in found)
                    waiting = {p for entry in found for p in entry.lookups.values() if p is not None} - asked
        except (OSError, ImportError):
            return
        self._entries = self._still_true(entries)

    def result(self, path: str, codes: frozenset[str]) -> str | None:
        """What was found in a file when it was checked for these codes; None where that is not known."""
        entry = self._entries.get(path)
        return entry.result if entry is not None and entry.result and entry.codes == _joined(codes) else None

    def keep(
        self, path: str, digest: bytes, status: os.stat_result, seen: int, codes: frozenset[str], result: str
    ) -> None:
        """Takes in what was found in a file.

        Args:
            path: absolute.
            digest: of its content.
            status: from before it was read.
            seen: a moment before that.
            codes: that it was checked for.
            result: what was found.
        """
        old = self._entries.get(path)
        if old is None or old.digest != digest:
            old = None
        entry = self._put(path, status, seen, digest)
        if old is not None:
            entry.since, entry.lookups = old.since, old.lookups
        entry.checked, entry.codes, entry.result = self._now, _joined(codes), result

    def keep_imports(self, lookups: Mapping[str, Lookups], digests: Mapping[str, bytes]) -> None:
        """Takes in what imports led to; to be called after each `keep`.

        Args:
            lookups: which modules were looked for on whose behalf, and where they were found.
            digests: of the files that were read for it. Where another content was kept, the file was written
                during the run: what was found by means of it does not hold.
        """
        for path, digest in digests.items():
            entry = self._entry_of(path)
            if entry.digest != digest:
                entry.since = time.time_ns()
                self._changed.add(path)
        for path, found in lookups.items():
            self._entry_of(path).lookups.update(found)
            for reached in found.values():
                if reached is not None:
                    self._entry_of(reached)
            self._changed.add(path)

    def save(self) -> None:
        """Writes what is new. What cannot be written is not kept."""
        entries = [
            entry
            for entry in map(self._entries.get, sorted(self._changed))
            if entry is not None and entry.digest and _is_storable(entry.path)
        ]
        if not entries:
            return
        with contextlib.suppress(OSError, ImportError, ValueError), self._open() as connection, connection:
            connection.execute("begin immediate")  # between reading and writing nobody else writes
            for row in _fetch(connection, [entry.path for entry in entries]):
                if row != self._rows.get(row[0]) and (other := _entry(row)) is not None:
                    _merge(self._entries[other.path], other)
            rows = map(_row, entries)
            connection.executemany(f"insert or replace into files ({_COLUMNS}) values ({','.join('?' * 11)})", rows)
            connection.execute("delete from files where seen < ?", (time.time_ns() - _KEPT_SECONDS * 10**9,))
        self._remove_unused()

    def _remove_unused(self) -> None:
        """Removes the files of other versions that nobody has used for long. One in use was touched when opened."""
        with contextlib.suppress(OSError), os.scandir(os.path.dirname(self._path)) as entries:
            for entry in entries:
                if _NAME.fullmatch(entry.name) and not entry.path.startswith(self._path):
                    with contextlib.suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        if status.st_mtime < time.time() - _OTHERS_KEPT_SECONDS:
                            os.unlink(entry.path)

    # --- whether it still holds -----------------------------------------------------------------------------------

    def _still_true(self, entries: dict[str, Entry]) -> dict[str, Entry]:
        """The entries of files that are as they were; without results where something they depend on is not."""
        changed = {p: math.inf for p, e in entries.items() if not (self._is_unchanged(e) and _finds_the_same(e))}
        importers: dict[str, list[str]] = {}
        for path, entry in entries.items():
            for reached in entry.lookups.values():
                if reached is not None:
                    importers.setdefault(reached, []).append(path)
                    if reached not in entries:
                        changed[reached] = math.inf
        for path, entry in entries.items():
            changed.setdefault(path, entry.since)
        latest: dict[str, float] = {}  # when the last change was of what a file depends on
        for start in sorted(changed, key=lambda path: changed[path], reverse=True):
            waiting = [start]
            while waiting:
                path = waiting.pop()
                if path not in latest:
                    latest[path] = changed[start]
                    waiting += importers.get(path, ())
        for path, entry in entries.items():
            if latest[path] > entry.checked:
                entry.result = ""
        return {path: entry for path, entry in entries.items() if changed[path] is not math.inf}

    def _is_unchanged(self, entry: Entry) -> bool:
        try:
            now = time.time_ns()
            status = os.stat(entry.path)
            if status.st_size != entry.size:
                return False
            same = (status.st_mtime_ns, status.st_ctime_ns) == (entry.mtime, entry.ctime)
            if same and max(entry.mtime, entry.ctime) < entry.seen - _UNSURE_NS:
                return True
            if digest_of(Path(entry.path).read_bytes()) != entry.digest:
                return False
        except (OSError, ValueError):
            return False
        entry.mtime, entry.ctime, entry.seen = status.st_mtime_ns, status.st_ctime_ns, now
        self._changed.add(entry.path)
        return True

    # --- entries --------------------------------------------------------------------------------------------------

    def _put(self, path: str, status: os.stat_result, seen: int, digest: bytes) -> Entry:
        times = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, seen)
        entry = self._entries[path] = Entry(path, *times, self._now, digest, {})
        self._changed.add(path)
        return entry

    def _entry_of(self, path: str) -> Entry:
        """The entry of a file, made now where there is none: of one that was read for the sake of another."""
        entry = self._entries.get(path)
        if entry is None:
            entry = self._entries[path] = Entry(path, 0, 0, 0, 0, 0, b"", {})  # is not written
            with contextlib.suppress(OSError, ValueError):
                seen = time.time_ns()
                status = os.stat(path)
                entry = self._put(path, status, seen, digest_of(Path(path).read_bytes()))
        return entry

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The database, made where there is none.

        Raises:
            OSError: it cannot be used. One that is broken is removed.
        """
        import sqlite3

        folder = Path(self._path).parent
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it tells lines of what its owner works on
        connection = None
        try:
            connection = sqlite3.connect(self._path, timeout=5)
            connection.text_factory = functools.partial(str, encoding="utf-8", errors="replace")
            connection.execute("pragma synchronous = off")
            _touch(self._path)
            connection.execute(_TABLE)
            yield connection
        except sqlite3.OperationalError as error:  # locked, or no place to write to
            raise OSError(str(error)) from error
        except sqlite3.DatabaseError as error:
            with contextlib.suppress(OSError):
                Path(self._path).unlink()
            raise OSError(str(error)) from error
        finally:
            if connection is not None:
                connection.close()


def _touch(path: str) -> None:
    """Tells by the time of a file that it is used: reading alone does not."""
    with contextlib.suppress(OSError):
        if os.stat(path).st_mtime < time.time() - _DAY_SECONDS:
            os.utime(path)


def _fetch(connection: sqlite3.Connection, paths: list[str]) -> Iterator[tuple[Any, ...]]:
    for at in range(0, len(paths), _MOST_IN_QUERY):
        some = paths[at : at + _MOST_IN_QUERY]
        query = f"select {_COLUMNS} from files where path in ({','.join('?' * len(some))})"
        yield from connection.execute(query, some)


def _entry(row: tuple[Any, ...]) -> Entry | None:
    """What a row says; nothing where it is not as this module writes it."""
    if tuple(map(type, row)) != _TYPES:
        return None
    try:
        lookups = json.loads(row[7])
    except (ValueError, RecursionError):
        return None
    if not isinstance(lookups, dict) or not all(p is None or isinstance(p, str) for p in lookups.values()):
        return None
    entry = Entry(*row)
    entry.lookups = lookups
    return entry


def _row(entry: Entry) -> tuple[Any, ...]:
    values = (getattr(entry, name) for name in _COLUMNS.split(", "))
    return tuple(json.dumps(value) if isinstance(value, dict) else value for value in values)


def _merge(own: Entry, other: Entry) -> None:
    """Takes into `own` what a run at the same time has written of the same file."""
    if own.digest != other.digest:
        own.since = time.time_ns()  # neither run's results hold: nobody knows what each of them has seen when
        return
    folder = os.path.dirname(own.path)
    holding = {module: path for module, path in other.lookups.items() if module_path(module, folder) == path}
    own.since = max(own.since, other.since) if len(holding) == len(other.lookups) else time.time_ns()
    own.lookups = holding | own.lookups
    if other.checked > own.checked:
        own.checked, own.codes, own.result = other.checked, other.codes, other.result


def _finds_the_same(entry: Entry) -> bool:
    folder = os.path.dirname(entry.path)
    return all(module_path(module, folder) == found for module, found in entry.lookups.items())


def _is_storable(path: str) -> bool:
    """Whether a path is a text that can be encoded: one that is no UTF-8 on the disk cannot."""
    return path.isascii() or path.encode("utf-8", "ignore").decode("utf-8") == path


def _joined(codes: frozenset[str]) -> str:
    return ",".join(sorted(codes)) or "none"


def default_folder() -> str:
    """Where caches of this user are kept on this system; `TORCHCOPY_CACHE_DIR` names another folder."""
    if own := os.environ.get("TORCHCOPY_CACHE_DIR"):
        return own
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    return os.path.join(base, "torchcopy")


@functools.cache
def _fingerprint() -> str:
    """A name for this torchcopy, told by its version and the times of the linter's own files, and this Python."""
    package = Path(__file__).parent
    folders = (package, package.parent / "semantics" / "codes")
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    states = [(path.name, status.st_size, status.st_mtime_ns) for path in files for status in (path.stat(),)]
    described: list[Any] = [__version__, sys.version, str(package), states]
    return hashlib.blake2b(repr(described).encode(), digest_size=8).hexdigest()
