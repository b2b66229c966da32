"""Which codes are looked for in which files: the command's options, and `[tool.torchcopy.lint]`."""

from __future__ import annotations

import dataclasses
import difflib
import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .._errors import InputError
from ..semantics.codes import CODES, match_codes
from .globs import PathPatterns

_KEYS = ("select", "ignore", "per-file-ignores", "exclude")
_TABLE = "[tool.torchcopy.lint]"
LINTED_CODES = frozenset(code.code for code in CODES if code.linted)
DEFAULT_CODES = frozenset(code.code for code in CODES if code.linted and code.on)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What holds for the files below one folder.

    Attributes:
        folder: that the patterns are relative to; empty where there are none.
        codes: that are looked for.
        per_file: patterns, and the codes that are not looked for in the files that they fit.
        exclude: files that are not checked.
    """

    folder: str = ""
    codes: frozenset[str] = DEFAULT_CODES
    per_file: tuple[tuple[PathPatterns, frozenset[str]], ...] = ()
    exclude: PathPatterns = PathPatterns(())  # noqa: RUF009  # it never changes

    def codes_for(self, path: str) -> frozenset[str]:
        """The codes that are looked for in the file at the absolute `path`."""
        codes = self.codes
        relative = self._relative(path) if self.per_file else ""
        for patterns, ignored in self.per_file:
            if patterns.fit(relative):
                codes -= ignored
        return codes

    def excludes(self, path: str) -> bool:
        """Whether the file or folder at the absolute `path`, or a folder that it is in, is not to be checked."""
        return bool(self.folder) and self.exclude.fit(self._relative(path))

    def excludes_itself(self, path: str) -> bool:
        """Whether a pattern fits the file or folder at the absolute `path`, and not only a folder that it is in."""
        return bool(self.folder) and self.exclude.fit_itself(self._relative(path))

    def _relative(self, path: str) -> str:
        return os.path.relpath(path, self.folder).replace(os.sep, "/")


class SettingsFinder:
    """The settings of each folder: those of the nearest `pyproject.toml` that has some, changed by the options."""

    def __init__(self, *, select: Iterable[str] | None = None, ignore: Iterable[str] | None = None) -> None:
        """Takes the command's options: `select` stands for both lists of the file, `ignore` is added to them.

        Raises:
            InputError: a code is unknown, or no lint looks for it.
        """
        self._select = None if select is None else _selected(select, "`--select`")
        self._ignore = frozenset() if ignore is None else _codes(ignore, "`--ignore`")
        self._known: dict[str, Settings] = {}

    def of_folder(self, folder: str) -> Settings:
        """The settings for the files right in the folder at the absolute path `folder`.

        Raises:
            InputError: its settings cannot be read.
        """
        known = self._known.get(folder)
        if known is None:
            own = _read(os.path.join(folder, "pyproject.toml"))
            above = os.path.dirname(folder)
            if own is not None:
                known = self._settings(folder, own)
            elif above != folder:
                known = self.of_folder(above)
            else:
                known = self._settings("", {})
            self._known[folder] = known
        return known

    def _settings(self, folder: str, table: dict[str, Any]) -> Settings:
        where = f"{Path(folder, 'pyproject.toml')}: {_TABLE}"
        _check_keys(table, where)
        selected = self._select
        if selected is None:
            selected = DEFAULT_CODES
            if "select" in table:
                selected = _selected(_texts(table["select"], f"{where} `select`"), f"{where} `select`")
            if "ignore" in table:
                selected -= _codes(_texts(table["ignore"], f"{where} `ignore`"), f"{where} `ignore`")
        per_file = table.get("per-file-ignores", {})
        if not isinstance(per_file, dict):
            raise InputError(f'{where} `per-file-ignores` is a table such as {{"tests/**" = ["TC2"]}}')
        ignored = []
        for pattern, codes in per_file.items():
            at = f"{where} `per-file-ignores` of {pattern!r}"
            ignored.append((PathPatterns((pattern,)), _codes(_texts(codes, at), at)))
        exclude = tuple(_texts(table.get("exclude", []), f"{where} `exclude`"))
        return Settings(folder, selected - self._ignore, tuple(ignored), PathPatterns(exclude))


def _read(path: str) -> dict[str, Any] | None:
    """The linter's table of a `pyproject.toml`; None where there is no such file or no such table."""
    if not os.path.isfile(path):
        return None
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    if b"torchcopy" not in content:
        return None
    try:
        table: Any = tomllib.loads(content.decode("utf-8"))
    except ValueError as error:  # TOMLDecodeError, UnicodeDecodeError
        raise InputError(f"{path} cannot be read: {error}") from error
    name = ""
    for key in ("tool", "torchcopy", "lint"):
        table = table.get(key)
        if table is None:
            return None
        name = f"{name}.{key}".lstrip(".")
        if not isinstance(table, dict):
            raise InputError(f"{path}: `{name}` is a table; got {table!r}")
    settings: dict[str, Any] = table
    return settings


def _check_keys(table: dict[str, Any], where: str) -> None:
    for key in table:
        if key not in _KEYS:
            close = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(f'`{k}`' for k in _KEYS)}"
            raise InputError(f"{where} has no `{key}`: {hint}")


def _texts(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InputError(f'{where} is a list of texts such as ["…", "…"]; got {value!r}')
    return value


def _codes(names: Iterable[str], where: str) -> frozenset[str]:
    try:
        return frozenset(code.code for code in match_codes(names))
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _selected(names: Iterable[str], where: str) -> frozenset[str]:
    """The codes of the linter that are meant."""
    names = list(names)
    for name in names:
        if not _codes([name], where) & LINTED_CODES:
            raise InputError(f"{where}: no lint looks for {name}: `torchcopy audit` does")
    return _codes(names, where) & LINTED_CODES if names else frozenset()
