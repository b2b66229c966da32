"""A file that is checked: a Python source or a notebook, with findings placed in it and edits written back."""

from __future__ import annotations

from collections.abc import Sequence

from ..semantics.codes.comments import SilencingComment
from .findings import Edit, Finding
from .notebooks.notebook import Notebook
from .reading import NotReadError, TextFile, decode
from .records import FixedText, Place, PlacedFinding, SkippedFile, UnusedComment
from .source import Source

_MOST_CHARACTERS = 20_000_000  # a tree takes some hundred bytes for each


class PythonFile:
    """A file of Python."""

    def __init__(self, path: str, file: TextFile) -> None:
        self.path = path
        self._file = file
        self.source = Source(path, file.text)

    def broken_parts(self) -> list[SkippedFile]:
        """Parts that cannot be checked while the rest can: a Python file is one part."""
        return []

    def place(self, finding: Finding) -> PlacedFinding:
        """The finding with what is known of the file."""
        line_at = self.source.line_at
        return PlacedFinding(
            code=finding.code,
            message=finding.message,
            path=self.path,
            line=finding.line,
            column=finding.column,
            end_line=finding.end_line,
            end_column=finding.end_column,
            text=line_at(finding.line),
            file_line=finding.line,
            fixable=finding.fix is not None,
            safe=finding.fix is None or finding.fix.safe,
            note="" if finding.fix is None else finding.fix.note,
            also=tuple(Place(role, line, line_at(line)) for role, line in finding.also),
        )

    def place_comment(self, comment: SilencingComment, reason: str) -> UnusedComment:
        """The comment with what is known of the file."""
        text = comment.text[comment.column - 1 : comment.end_column - 1]
        return UnusedComment(self.path, comment.line, comment.column, text, reason=reason)

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
        return self._file.mark + self.source.text.encode("utf-8")

    def changes_from(self, before: PythonFile) -> tuple[FixedText, ...]:
        """What has become of the file that it was."""
        return (FixedText(before.encode().decode(), self.encode().decode()),)  # with the mark: `patch` counts it


class NotebookFile:
    """A notebook."""

    def __init__(self, path: str, file: TextFile) -> None:
        self.path = path
        self._mark = file.mark
        self._notebook = Notebook(file.text)
        self.source = Source(path, self._notebook.text)

    def broken_parts(self) -> list[SkippedFile]:
        """The cells that cannot be checked."""
        return [SkippedFile(self.path, str(why), why.line, number) for number, why in self._notebook.broken]

    def place(self, finding: Finding) -> PlacedFinding:
        """The finding with its cell and its line there."""
        cell = self._notebook.cell_of(finding.line)
        line = finding.line - cell.first_line + 1
        fix = finding.fix if finding.fix is not None and self._notebook.can_apply(finding.fix.edits) else None
        return PlacedFinding(
            code=finding.code,
            message=finding.message,
            path=self.path,
            line=line,
            column=finding.column,
            end_line=finding.end_line - cell.first_line + 1,
            end_column=finding.end_column,
            text=cell.line_at(line),
            cell=cell.number,
            file_line=self._notebook.file_line(cell, line),
            fixable=fix is not None,
            safe=fix is None or fix.safe,
            note="" if fix is None else fix.note,
            also=tuple(self._place(role, line) for role, line in finding.also),
        )

    def _place(self, role: str, line: int) -> Place:
        cell = self._notebook.cell_of(line)
        line = line - cell.first_line + 1
        return Place(role, line, cell.line_at(line), cell.number)

    def place_comment(self, comment: SilencingComment, reason: str) -> UnusedComment:
        """The comment with its cell and its line there."""
        cell = self._notebook.cell_of(comment.line)
        text = comment.text[comment.column - 1 : comment.end_column - 1]
        line = comment.line - cell.first_line + 1
        return UnusedComment(self.path, line, comment.column, text, cell.number, reason)

    def can_apply(self, edits: Sequence[Edit]) -> bool:
        """Whether edits of the source can be written back."""
        return self._notebook.can_apply(edits)

    def apply(self, edits: Sequence[Edit]) -> NotebookFile:
        """The notebook after edits that do not overlap."""
        return NotebookFile(self.path, TextFile(self._notebook.apply(edits), self._mark))

    def encode(self) -> bytes:
        """The bytes of the file."""
        return self._mark + self._notebook.raw.encode("utf-8", "surrogatepass")

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
