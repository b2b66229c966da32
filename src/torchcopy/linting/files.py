"""Which files are checked: those that are named, and those in folders that are named."""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Iterable, Iterator

from .._errors import InputError
from .records import SkippedFile
from .settings import Settings, SettingsFinder

_SUFFIXES = (".py", ".ipynb")
_NEVER = frozenset(
    """
    .bzr .direnv .eggs .git .git-rewrite .hg .ipynb_checkpoints .mypy_cache .nox .pants.d .pyenv .pytest_cache
    .pytype .ruff_cache .svn .tox .venv .vscode __pycache__ __pypackages__ _build buck-out build dist node_modules
    site-packages venv
    """.split()
)


@dataclasses.dataclass(frozen=True, slots=True)
class FileToCheck:
    """A file, and what is looked for in it.

    Attributes:
        path: absolute; links are not followed.
        codes: that are looked for.
        size: in bytes.
    """

    path: str
    codes: frozenset[str]
    size: int


def find_files(
    paths: Iterable[str], settings: SettingsFinder, *, force_exclude: bool = False
) -> tuple[list[FileToCheck], list[SkippedFile]]:
    """The files to check, each once, sorted by path; and the folders that cannot be opened.

    Left out of folders are those that are nobody's own, such as `.git`, `.venv` and `build`, and what the settings
    exclude. What is named is checked, unless `force_exclude`: hooks and editors name files that nobody chose.

    Raises:
        InputError: a path does not exist, cannot be opened, or is a file of another kind; settings cannot be read.
    """
    found: dict[str, FileToCheck] = {}
    skipped: dict[str, SkippedFile] = {}
    for given in paths:
        path = _absolute(given)
        try:
            status = os.stat(path)
        except OSError as error:
            raise InputError(f"cannot open {given!r}: {error.strerror or error}") from error
        is_folder = stat.S_ISDIR(status.st_mode)
        if not is_folder and not path.endswith(_SUFFIXES):
            raise InputError(f"cannot check {given!r}: it is neither `.py` nor `.ipynb`")
        if not is_folder and not stat.S_ISREG(status.st_mode):
            raise InputError(f"cannot check {given!r}: it is no regular file")
        if force_exclude and _is_left_out(path, settings.of_folder(path if is_folder else os.path.dirname(path))):
            continue
        if not os.access(path, os.R_OK | os.X_OK if is_folder else os.R_OK):
            raise InputError(f"cannot open {given!r}: Permission denied")
        if not is_folder:
            _add(found, path, status.st_size, settings)
            continue
        for each, size in _below(path, settings, skipped):
            _add(found, each, size, settings)
    return sorted(found.values(), key=lambda each: each.path), sorted(skipped.values(), key=lambda each: each.path)


def _is_left_out(path: str, own: Settings) -> bool:
    """Whether a path that is named would be left out if a folder above it was, up to where the settings are."""
    top = own.folder or os.getcwd()
    inside = os.path.relpath(path, top).split(os.sep) if _is_below(path, top) else [os.path.basename(path)]
    folders = inside if os.path.isdir(path) else inside[:-1]
    return own.excludes(path) or not _NEVER.isdisjoint(folders)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))


def _absolute(given: str) -> str:
    if not given or "\0" in given:
        raise InputError(f"{given!r} is no path: name files and folders")
    return os.path.abspath(given)


def _add(found: dict[str, FileToCheck], path: str, size: int, settings: SettingsFinder) -> None:
    if path not in found:
        codes = settings.of_folder(os.path.dirname(path)).codes_for(path)
        found[path] = FileToCheck(path, codes, size)


def _below(folder: str, settings: SettingsFinder, skipped: dict[str, SkippedFile]) -> Iterator[tuple[str, int]]:
    """The files below a folder, with their sizes. Links to folders are not followed, links to files are.

    A folder is not left out because one above it is excluded: the walk began below that by wish.
    """
    waiting = [folder]
    while waiting:
        at = waiting.pop()
        own = settings.of_folder(at)
        try:
            entries = list(os.scandir(at))
        except OSError as error:
            skipped[at] = SkippedFile(at, f"is a folder that cannot be opened: {error.strerror or error}")
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _NEVER and not own.excludes_itself(entry.path):
                        waiting.append(entry.path)
                elif entry.name.endswith(_SUFFIXES) and entry.is_file() and not own.excludes_itself(entry.path):
                    yield entry.path, entry.stat().st_size
            except OSError:
                continue
