"""flake8 plugins for what `torchcopy lint` finds, one a family: `TC1`, `TC2`, and `TC3`, which is off at first."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from ._version import __version__
from .linting.checking import check
from .linting.project import Project
from .linting.reading import NotReadError
from .linting.settings import LINTED_CODES
from .linting.source import Source

_Row = tuple[int, int, str, type[Any]]
_PROJECT = Project()  # of all files of a run: modules that they import are read once


class _Family:
    """The codes that begin alike, in one file."""

    name = "torchcopy"
    version = __version__
    codes: frozenset[str] = frozenset()

    def __init__(self, tree: ast.Module, lines: Sequence[str], filename: str) -> None:
        """Is given by flake8 what it has read."""
        self._source = Source(filename, "".join(lines), tree=tree)

    def run(self) -> Iterator[_Row]:
        """Line, column from 0, text and plugin of each finding."""
        try:
            found = check(self._source, self.codes, _PROJECT, noqa=False).findings  # flake8 does that itself
        except NotReadError:  # flake8 tells of files that cannot be parsed
            return
        for finding in found:
            yield finding.line, finding.column - 1, f"{finding.code} {finding.message}", type(self)


def _codes(family: str) -> frozenset[str]:
    return frozenset(code for code in LINTED_CODES if code.startswith(family))


class Hazards(_Family):
    """Copies that are missing."""

    codes = _codes("TC1")


class Waste(_Family):
    """Copies that were not needed."""

    codes = _codes("TC2")


class Idioms(_Family):
    """What is discouraged; `--enable-extensions=TC3` or `--extend-select=TC3` asks for it."""

    off_by_default = True
    codes = _codes("TC3")
