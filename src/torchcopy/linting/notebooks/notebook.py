"""A notebook as one source, and edits of that source written into the file."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
import json
import re
from collections.abc import Iterable, Sequence

from ..findings import Edit
from ..reading import NotReadError, explain_syntax_error
from ..source import line_starts
from .cells import as_python, fault_of
from .json_text import JsonString, read_notebook


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A code cell.

    Attributes:
        number: from 1 on, all cells counted.
        text: what is in it.
        python: the same with placeholders for what only IPython knows, as long as `text`.
        strings: what its text is made of in the file.
        start: where in the source of the notebook it begins.
        first_line: the line of that source, from 1.
    """

    number: int
    text: str
    python: str
    strings: tuple[JsonString, ...]
    start: int
    first_line: int


class Notebook:
    """A notebook whose kernel speaks Python.

    Attributes:
        raw: the text of the file.
        cells: its code cells that can be parsed.
        broken: number and fault of each that cannot.
        text: the cells below each other, as one source.
    """

    def __init__(self, raw: str) -> None:
        """Reads a notebook.

        Raises:
            NotReadError: it is none, or its language is another.
        """
        self.raw = raw
        self.cells: list[Cell] = []
        self.broken: list[tuple[int, NotReadError]] = []
        self._lines_seen: dict[int, list[int]] = {}  # of a cell: how many end up to the end of each string
        found = read_notebook(raw)
        _check_language(found.fields.get("metadata"))
        start, line = 0, 1
        for number, cell in enumerate(found.cells, 1):
            if cell.kind != "code":
                continue
            text = "".join(string.value for string in cell.strings)
            python = as_python(text)
            if python is None:
                continue
            if fault := fault_of(python):
                self.broken.append((number, explain_syntax_error(fault, text)))
                continue
            self.cells.append(Cell(number, text, python, cell.strings, start, line))
            start += len(python) + 1
            line += len(line_starts(python))
        self.text = "".join(f"{cell.python}\n" for cell in self.cells)

    @functools.cached_property
    def _first_lines(self) -> list[int]:
        return [cell.first_line for cell in self.cells]

    def cell_of(self, line: int) -> Cell:
        """The cell that a line of `text` is in."""
        return self.cells[max(0, bisect.bisect_right(self._first_lines, line) - 1)]

    def file_line(self, cell: Cell, line: int) -> int:
        """The line of the file where line `line` of a cell stands."""
        lines = self._lines_seen.get(cell.number)
        if lines is None:
            ends = itertools.accumulate(string.value.count("\n") for string in cell.strings)
            lines = self._lines_seen[cell.number] = list(ends)
        at = min(bisect.bisect_left(lines, line), len(lines) - 1)
        start = cell.strings[at].start if cell.strings else 0
        return bisect.bisect_right(self._raw_line_starts, start)

    @functools.cached_property
    def _raw_line_starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.raw))]

    def can_apply(self, edits: Iterable[Edit]) -> bool:
        """Whether edits of `text` stay inside of cells and off what only IPython knows."""
        return all(self._target(edit) is not None for edit in edits)

    def _target(self, edit: Edit) -> Cell | None:
        at = bisect.bisect_right(self.cells, edit.start, key=lambda cell: cell.start) - 1
        if at < 0:
            return None
        cell = self.cells[at]
        start, end = edit.start - cell.start, edit.end - cell.start
        inside = end <= len(cell.text) and cell.text[start:end] == cell.python[start:end]
        return cell if inside else None

    def apply(self, edits: Sequence[Edit]) -> str:
        """The text of the file after `edits` of `text`, which do not overlap and can be applied."""
        by_cell: dict[int, list[Edit]] = {}
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            cell = self._target(edit)
            if cell is None:
                raise ValueError("an edit that is in no cell")
            own = Edit(edit.start - cell.start, edit.end - cell.start, edit.text)
            by_cell.setdefault(self.cells.index(cell), []).append(own)
        raw = self.raw
        for at in sorted(by_cell, reverse=True):
            raw = _rewritten(raw, self.cells[at], by_cell[at])
        return raw


def _check_language(metadata: object) -> None:
    """Refuses a notebook in another language than Python."""
    if not isinstance(metadata, dict):
        return
    for field, key in (("language_info", "name"), ("kernelspec", "language")):
        described = metadata.get(field)
        language = described.get(key) if isinstance(described, dict) else None
        if isinstance(language, str) and language:
            if not language.lower().startswith(("python", "ipython")):
                raise NotReadError(f"is a notebook in {language}")
            return


def _rewritten(raw: str, cell: Cell, edits: list[Edit]) -> str:
    """The file with edits in one cell: inside of the strings where lines stay lines, else with new strings."""
    starts = [0]
    for string in cell.strings:
        starts.append(starts[-1] + len(string.value))
    pieces: list[tuple[int, int, str]] = []
    for edit in edits:
        at = max(0, bisect.bisect_right(starts, edit.start, hi=len(starts) - 1) - 1)
        if edit.end > starts[at + 1] or "\n" in edit.text or "\n" in cell.text[edit.start : edit.end]:
            return _with_new_strings(raw, cell, edits)
        offsets = cell.strings[at].offsets(raw)
        pieces.append(
            (offsets[edit.start - starts[at]], offsets[edit.end - starts[at]], _quoted(raw, edit.text)[1:-1])
        )
    for start, end, text in reversed(pieces):
        raw = raw[:start] + text + raw[end:]
    return raw


def _with_new_strings(raw: str, cell: Cell, edits: list[Edit]) -> str:
    """The file with the strings of one cell written anew, from the first that changes to the last."""
    text = cell.text
    for edit in reversed(edits):
        text = text[: edit.start] + edit.text + text[edit.end :]
    old = [string.value for string in cell.strings]
    in_list = len(old) > 1 or raw[: cell.strings[0].start].rstrip().endswith("[")
    new = text.splitlines(keepends=True) if in_list else [text]
    if "".join(new) != text or any("\n" not in line for line in new[:-1]):  # ends of lines that JSON does not know
        new = [f"{line}\n" for line in text.split("\n")]
        new[-1] = new[-1][:-1]
    first = 0
    while first < min(len(old), len(new)) - 1 and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first - 1 and old[-1 - last] == new[-1 - last]:
        last += 1
    begin, end = cell.strings[first], cell.strings[len(old) - 1 - last]
    separator = raw[cell.strings[0].end : cell.strings[1].start] if len(old) > 1 else ", "
    written = separator.join(_quoted(raw, line) for line in new[first : len(new) - last])
    return raw[: begin.start] + written + raw[end.end :]


def _quoted(raw: str, text: str) -> str:
    return json.dumps(text, ensure_ascii=raw.isascii())
