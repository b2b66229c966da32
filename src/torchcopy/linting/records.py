"""What a run of the linter found, as records that a reporter reads."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A line that has a part in a finding.

    Attributes:
        role: what it does there, a few words.
        line: from 1 on, in the cell for a notebook.
        text: the line as it stands in the file, without its end.
        cell: the number of the notebook's cell, from 1 on; 0 in a file of Python.
    """

    role: str
    line: int
    text: str
    cell: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedFinding:
    """One mistake in one file.

    Attributes:
        code: `TC101`.
        message: what is wrong, a sentence without its full stop.
        path: of the file, relative to the working directory where it lies below it.
        line: from 1 on, in the cell for a notebook.
        column: in characters, from 1 on.
        end_line: the line of the last character.
        end_column: behind the last character.
        text: the line as it stands in the file, without its end.
        cell: the number of the notebook's cell, from 1 on; 0 in a file of Python.
        file_line: the line of the file: another one than `line` in a notebook, which is a file of JSON.
        fixable: whether there is a fix.
        safe: whether the program computes the same after it.
        note: what the fix may change, for one that is not safe.
        also: other lines that have a part in it.
    """

    code: str
    message: str
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str = ""
    cell: int = 0
    file_line: int = 0
    fixable: bool = False
    safe: bool = True
    note: str = ""
    also: tuple[Place, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON: `cell` is null in a file of Python, `fix` if there is none."""
        return {
            "code": self.code,
            "message": self.message,
            "path": self.path,
            "cell": self.cell or None,
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
            "fixable": self.fixable,
            "fix": {"safe": self.safe, "note": self.note} if self.fixable else None,
            "also": [{"role": place.role, "cell": place.cell or None, "line": place.line} for place in self.also],
        }


@dataclasses.dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file, or a cell of a notebook, that could not be checked, and why.

    Attributes:
        path: of the file.
        reason: why, in a few words.
        line: where that shows, from 1 on; 0 where it is no matter of a line.
        cell: the number of the notebook's cell; 0 where the whole file was skipped.
        is_error: whether that is a fault of torchcopy or of writing, and not a matter of what is in the file.
    """

    path: str
    reason: str
    line: int = 0
    cell: int = 0
    is_error: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class UnusedComment:
    """A comment that silences nothing, or of which a part does.

    Attributes:
        path: of the file.
        line: from 1 on, in the cell for a notebook.
        column: in characters, from 1 on.
        text: the comment.
        cell: the number of the notebook's cell; 0 in a file of Python.
        reason: what is said of it, a few words.
    """

    path: str
    line: int
    column: int
    text: str
    cell: int = 0
    reason: str = "this comment silences nothing"


@dataclasses.dataclass(frozen=True, slots=True)
class FixedText:
    """What fixes make of a file of Python, or of one cell of a notebook: its text before and after."""

    before: str
    after: str
    cell: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class UnsafeFix:
    """A fix that was made though it is not safe: of which finding, and what may change by it."""

    code: str
    line: int
    note: str
    cell: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class FixedFile:
    """What fixes make of a file.

    Attributes:
        path: of the file.
        texts: the text of the file, or of each cell that changes.
        codes: the code of each fix, in the order in which they were made.
        unsafe: those of them that are not safe.
    """

    path: str
    texts: tuple[FixedText, ...]
    codes: tuple[str, ...]
    unsafe: tuple[UnsafeFix, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class FileResult:
    """All that was found in one file."""

    findings: tuple[PlacedFinding, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    unused: tuple[UnusedComment, ...] = ()
    fixed: FixedFile | None = None
    is_read: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class LintReport:
    """All that was found in a run.

    Attributes:
        findings: in the order of files and lines. With fixes: those that are left.
        skipped: files, and cells of notebooks, that could not be checked.
        unused: comments that silence nothing.
        fixed: the files that fixes change.
        files_read: how many were checked.
        files_skipped: how many could not be.
        files_cached: how many of those that were checked were so in an earlier run, and are as they were.
    """

    findings: tuple[PlacedFinding, ...]
    skipped: tuple[SkippedFile, ...] = ()
    unused: tuple[UnusedComment, ...] = ()
    fixed: tuple[FixedFile, ...] = ()
    files_read: int = 0
    files_skipped: int = 0
    files_cached: int = 0
