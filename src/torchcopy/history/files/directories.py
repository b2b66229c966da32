"""Directories that are replaced whole: what was there stays until all of the new one is on the disk.

A new directory is written beside the old one, brought to the disk, and then exchanged with it by one call of the
system. Where the system has no such call the old one is moved aside first; `find` looks there too.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from ..._errors import InputError
from .faults import Fault

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_NOT_FOLLOWED: Final = (
    os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
)

IGNORED: Final = frozenset({".DS_Store"})
"""What systems put into directories that somebody has looked at."""


def checked_path(path: Any) -> Path:
    """`path` as a path, links in it followed.

    Raises:
        InputError: it is none.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"`path` must be a str or a path; got {type(path).__name__}: {path!r}")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(f"`path` must name a directory; got {text!r}")
    return Path(os.path.realpath(text))


def checked_target(path: Any) -> Path:
    """Where something can be saved.

    Raises:
        InputError: nothing can be saved there.
    """
    target = checked_path(path)
    if not target.name:
        raise InputError(f"{target} is no place to save to: give the name of a new directory")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is no directory: make it first, then save to {target}")
    if len(os.fsencode(target.name)) > 200:
        raise InputError(f"the name {target.name[:30]!r}… is too long for a directory: take one of up to 200 bytes")
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file: a snapshot is a directory. Nothing was written")
    return target


# --- reading ---------------------------------------------------------------------------------------------------


class Directory:
    """A directory that was opened: what is read from it comes from this one, though another takes its place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        if os.open in os.supports_dir_fd:
            self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | os.O_CLOEXEC)
            facts = os.fstat(self._descriptor)
            self._identity: tuple[int, int] | None = (facts.st_dev, facts.st_ino)
        else:
            self._identity = self._identity_at_path()

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *error: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _identity_at_path(self) -> tuple[int, int] | None:
        with contextlib.suppress(OSError):
            facts = self.path.stat()
            return facts.st_dev, facts.st_ino
        return None

    @property
    def was_replaced(self) -> bool:
        """Whether its path leads elsewhere by now."""
        return self._identity_at_path() != self._identity

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[int]:
        """A file in it, as a descriptor. Links are not followed, and what is no file is not waited for.

        Raises:
            Fault: there is no such file.
        """
        try:
            if self._descriptor is None:
                descriptor = os.open(self.path / name, _NOT_FOLLOWED | getattr(os, "O_BINARY", 0))
            else:
                descriptor = os.open(name, _NOT_FOLLOWED, dir_fd=self._descriptor)
        except FileNotFoundError:
            raise Fault("is missing", name) from None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                raise Fault("is a symbolic link, which is not followed", name) from None
            if error.errno in (errno.ENXIO, errno.EISDIR):
                raise Fault("is no file", name) from None
            raise
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Fault("is no file", name)
            yield descriptor
        finally:
            os.close(descriptor)

    def path_of(self, name: str, descriptor: int) -> str:
        """A path to an open file, for who wants one: where there is such a path, to this very file."""
        own = f"/proc/self/fd/{descriptor}"
        return own if sys.platform == "linux" and Path(own).exists() else str(self.path / name)

    def read(self, name: str, largest_bytes: int) -> bytes:
        """The bytes of a file.

        Raises:
            Fault: there is no such file, or it is larger.
        """
        with self.opened(name) as descriptor:
            size = os.fstat(descriptor).st_size
            if size > largest_bytes:
                raise Fault(f"has {size:,} bytes, of at most {largest_bytes:,}", name)
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(largest_bytes)

    def names(self) -> list[str]:
        """What is in it."""
        return os.listdir(self.path if self._descriptor is None else self._descriptor)  # noqa: PTH208  # ditto


def find(path: Path) -> Path:
    """Where the directory is that was saved as `path`: elsewhere if a save was killed between two renames.

    Raises:
        InputError: it is nowhere.
    """
    if path.is_dir():
        return path
    if not path.exists() and (aside := _aside(path)).is_dir():
        return aside
    if path.exists():
        raise Fault("is a file, not a directory")
    raise InputError(f"there is nothing at {path}: give the directory that was saved to")


# --- writing ---------------------------------------------------------------------------------------------------


def sync(path: Path) -> None:
    """Brings the names in a directory to the disk."""
    if os.name == "nt":  # opens no directories
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes) -> None:
    """Writes a new file, and brings it to the disk."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def replacing(target: Path, check: Callable[[], object]) -> Iterator[Path]:
    """A new directory to write into, which takes the place of `target` when the body ends without an error.

    Args:
        target: there, or not.
        check: called right before it is replaced, raises if it must not be: all that is in it will go.
    """
    recover(target)
    new, held = _new_directory(target)
    try:
        yield new
        sync(new)
        check()
        _put_in_place(new, target)
        sync(target.parent)
    finally:
        remove(new)  # what it holds now: what was replaced, or what was not finished
        if held is not None:
            os.close(held)


def _new_directory(target: Path) -> tuple[Path, int | None]:
    """A directory that nobody else has, and what tells others that it is in use."""
    while True:
        new = target.parent / f"{_prefix(target)}{secrets.token_hex(6)}"
        new.mkdir()
        try:
            held = _locked(new)
        except (BlockingIOError, FileNotFoundError):  # another save has taken it for a leftover
            continue
        if new.is_dir():
            return new, held
        if held is not None:
            os.close(held)


def _prefix(target: Path) -> str:
    return f".{target.name}.torchcopy-new-"


def _aside(target: Path) -> Path:
    return target.parent / f".{target.name}.torchcopy-old"


def _locked(directory: Path) -> int | None:
    """Marks a directory as in use for as long as this process lives, or the descriptor is open.

    Raises:
        BlockingIOError: another process has done so.
    """
    if os.name == "nt":  # opens no directories
        return None
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if lock(descriptor, wait=False):
            return descriptor
    except BlockingIOError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def lock(descriptor: int, *, wait: bool) -> bool:
    """Locks a file or directory for as long as it is open. False where the system has no such locks.

    Raises:
        BlockingIOError: another process has locked it, and this one is not to wait.
    """
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        return False
    return True


def recover(target: Path) -> None:
    """Puts right what killed saves to `target` have left."""
    aside = _aside(target)
    if aside.is_dir():
        if target.exists():
            remove(aside)
        else:
            aside.rename(target)
    for left in target.parent.glob(f"{glob.escape(_prefix(target))}*"):
        try:
            held = _locked(left)
        except OSError:  # somebody is writing it, or has removed it
            continue
        if held is not None:  # else there is no telling
            remove(left)
            os.close(held)


def remove(directory: Path) -> None:
    """Removes a directory of files, as far as the system lets us: what stays is removed by the next save."""
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):  # noqa: PTH208
            (directory / name).unlink()
        directory.rmdir()


def _put_in_place(new: Path, target: Path) -> None:
    if not target.exists():
        new.rename(target)
        return
    new.chmod(stat.S_IMODE(target.stat().st_mode))  # who may look into it is the user's to say
    if not _exchange(new, target):
        aside = _aside(target)
        target.rename(aside)
        new.rename(target)
        aside.rename(new)


def _exchange(a: Path, b: Path) -> bool:
    """Has two directories change places, at one moment. False where that cannot be done."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    result = rename(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), ctypes.c_uint(_RENAME_EXCHANGE))
    if result == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number), str(b))
