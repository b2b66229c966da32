"""A file that is checked: a Python source or a notebook, with findings placed in it and edits written back."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence

from ..semantics.codes.comments import SilencingComment
from .findings import Edit, Finding
from .notebooks.notebook import Notebook
from .reading import NotReadError, TextFile, decode
from .records import FixedText, Place, PlacedFinding, SkippedFile, UnusedComment
from .source import Source

_MOST_CHARACTERS = 3_000_000  # a tree takes a hundred bytes and more for each: what is longer is data, not code


@dataclasses.dataclass(frozen=True, slots=True)
class _Line:
    """A line of the source as the file has it.

    Attributes:
        line: from 1, in the cell for a notebook.
        text: without its end.
        file_line: the line of the file.
        cell: the number of the cell; 0 in a file of Python.
    """

    line: int
    text: str
    file_line: int
    cell: int = 0


class _File(abc.ABC):
    """What both kinds have in common: how findings and comments are placed, given where each line stands."""

    path: str
    source: Source

    @abc.abstractmethod
    def _line(self, line: int) -> _Line:
        """Where a line of the source stands."""

    @abc.abstractmethod
    def can_apply(self, edits: Sequence[Edit]) -> bool:
        """Whether edits of the source can be written back."""

    def place(self, finding: Finding) -> PlacedFinding:
        """The finding with what is known of the file: in a notebook with its cell and its line there."""
        at = self._line(finding.line)
        fix = finding.fix if finding.fix is not None and self.can_apply(finding.fix.edits) else None
        return PlacedFinding(
            code=finding.code,
            message=finding.message,
            path=self.path,
            line=at.line,
            column=finding.column,
            end_line=at.line + finding.end_line - finding.line,
            end_column=finding.end_column,
            text=at.text,
            cell=at.cell,
            file_line=at.file_line,
            fixable=fix is not None,
            safe=fix is None or fix.safe,
            note="" if fix is None else fix.note,
            also=tuple(self._place(role, line) for role, line in finding.also),
        )

    def _place(self, role: str, line: int) -> Place:
        at = self._line(line)
        return Place(role, at.line, at.text, at.cell)

    def place_comment(self, comment: SilencingComment, reason: str) -> UnusedComment:
        """The comment with what is known of the file."""
        at = self._line(comment.line)
        text = comment.text[comment.column - 1 : comment.end_column - 1]
        return UnusedComment(self.path, at.line, comment.column, text, at.cell, reason)


class PythonFile(_File):
    """A file of Python."""

    def __init__(self, path: str, file: TextFile) -> None:
        self.path = path
        self._file = file
        self.source = Source(path, file.text)

    def _line(self, line: int) -> _Line:
        return _Line(line, self.source.line_at(line), line)

    def broken_parts(self) -> list[SkippedFile]:
        """Parts that cannot be checked while the rest can: a Python file is one part."""
        return []

    def can_apply(self, edits: Sequence[Edit]) -> bool:
        """Whether edits of the source can be written back."""
        return all(0 <= edit.start <= edit.end <= len(self.source.text) for edit in edits)

    def apply(self, edits: Sequence[Edit]) -> PythonFile:
        """The file after edits that do not overlap."""
        text = self.source.text
        end = "\r\n" if "\r\n" in text else "\n"
        for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
            new = edit.text.replace("\r\n", "\n").replace("\n", end)
            text = text[: edit.start] + new + text[edit.end :]
        return PythonFile(self.path, TextFile(text, self._file.mark))

    def encode(self) -> bytes:
        """The bytes of the file."""
        return self._file.encode()

    def changes_from(self, before: PythonFile) -> tuple[FixedText, ...]:
        """What has become of the file that it was."""
        return (FixedText(before.encode().decode(), self.encode().decode()),)  # with the mark: `patch` counts it


class NotebookFile(_File):
    """A notebook."""

    def __init__(self, path: str, file: TextFile) -> None:
        self.path = path
        self._file = file
        self._notebook = Notebook(file.text)
        self.source = Source(path, self._notebook.text)

    def _line(self, line: int) -> _Line:
        cell = self._notebook.cell_of(line)
        start = self.source.line_starts[line - 1] - cell.start
        length = len(self.source.line_at(line))  # as in the cell, where IPython's syntax is in place of blanks
        own = line - cell.first_line + 1
        return _Line(own, cell.text[start : start + length], self._notebook.file_line(cell, own), cell.number)

    def broken_parts(self) -> list[SkippedFile]:
        """The cells that cannot be checked."""
        return [SkippedFile(self.path, str(why), why.line, number) for number, why in self._notebook.broken]

    def can_apply(self, edits: Sequence[Edit]) -> bool:
        """Whether edits of the source can be written back."""
        return self._notebook.can_apply(edits)

    def apply(self, edits: Sequence[Edit]) -> NotebookFile:
        """The notebook after edits that do not overlap."""
        return NotebookFile(self.path, TextFile(self._notebook.apply(edits), self._file.mark))

    def encode(self) -> bytes:
        """The bytes of the file."""
        return self._file.encode()

    def changes_from(self, before: NotebookFile) -> tuple[FixedText, ...]:
        """The cells that have changed, by their numbers."""
        own = {cell.number: cell.text for cell in self._notebook.cells}
        return tuple(
            FixedText(cell.text, own[cell.number], cell.number)
            for cell in before._notebook.cells
            if own.get(cell.number, cell.text) != cell.text
        )


Document = PythonFile | NotebookFile


def open_document(path: str, content: bytes) -> Document:
    """The file with `content`.

    Raises:
        NotReadError: it cannot be read as what its name says.
    """
    if path.endswith(".ipynb"):
        return NotebookFile(path, decode(content, is_python=False))
    file = decode(content)
    if len(file.text) > _MOST_CHARACTERS:
        raise NotReadError(f"is too long ({len(file.text):,} characters)")
    return PythonFile(path, file)
