"""What fixes would change, as a unified diff that `patch` and `git apply` read."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..linting.records import FixedFile, FixedText

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_TO_QUOTE = re.compile(r'[\x00-\x1f"\\\x7f\ud800-\udfff]')


def as_diff(fixed: Sequence[FixedFile], folder: str = "") -> str:
    """The diff of some files. That of a notebook is one of its cells, to be read and not to be applied.

    Args:
        fixed: the files.
        folder: that their names are relative to; empty where they are as the diff is to have them.
    """
    return "".join(line for file in fixed for text in file.texts for line in _diff(_relative(file, folder), text))


def folder_of(fixed: Iterable[FixedFile]) -> str:
    """The folder where the diff is to be applied; empty for the working directory, where no file lies outside."""
    paths = [file.path for file in fixed]
    if not any(map(os.path.isabs, paths)):
        return ""
    try:
        return os.path.commonpath([Path(path).absolute().parent for path in paths])
    except ValueError:  # other drives
        return ""


def _relative(file: FixedFile, folder: str) -> str:
    path = os.path.relpath(file.path, folder) if folder else file.path
    return path.replace(os.sep, "/")


def _diff(path: str, text: FixedText) -> Iterator[str]:
    name = f"{path}:cell {text.cell}" if text.cell else path
    before, after = _LINE.findall(text.before), _LINE.findall(text.after)
    for line in difflib.unified_diff(before, after, _name(f"a/{name}"), _name(f"b/{name}")):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _name(path: str) -> str:
    """A path as git writes it: in quotes where it holds what would end it, a tab behind it where it has blanks."""
    if not _TO_QUOTE.search(path):
        return f"{path}\t" if " " in path else path
    plain = set(range(0x20, 0x7F)) - set(b'"\\')
    quoted = "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in os.fsencode(path))
    return f'"{quoted}"'
