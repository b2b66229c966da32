"""One Python source: its text, its tree, and where in the text the nodes of the tree are."""

from __future__ import annotations

import ast
import bisect
import functools
import re
import sys
import warnings
from collections.abc import Sequence

from .findings import Edit, Finding, Fix

_LINE_END = re.compile(r"\r\n|\r|\n")
_MISPLACED_IN_F_STRINGS = sys.version_info < (3, 12)  # where nodes inside of an f-string are is not told right


def line_starts(text: str) -> list[int]:
    """The offset of each line's first character, as Python counts lines: a form feed ends none."""
    return [0, *(found.end() for found in _LINE_END.finditer(text))]


class Source:
    """One source text, without its byte order mark, with the line ends of its file.

    Attributes:
        path: of the file, for messages; nothing is read from it.
        text: what was parsed; all offsets are characters of it, from 0.
    """

    def __init__(self, path: str, text: str, *, tree: ast.Module | None = None) -> None:
        self.path = path
        self.text = text
        self._ascii = text.isascii()
        if tree is not None:
            self.tree = tree

    @functools.cached_property
    def tree(self) -> ast.Module:
        """The syntax tree.

        Raises:
            SyntaxError, ValueError, RecursionError, MemoryError: it cannot be parsed.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of `\\d` in a string and the like: another tool's matter
            return ast.parse(self.text)

    @functools.cached_property
    def line_starts(self) -> list[int]:
        """Where each line begins."""
        return line_starts(self.text)

    @functools.cached_property
    def lines(self) -> list[str]:
        """The lines, without their ends."""
        return _LINE_END.split(self.text)

    def offset(self, line: int, column: int) -> int:
        """The offset of a place as `ast` tells it: lines from 1, columns from 0 in bytes of UTF-8."""
        starts = self.line_starts
        if line > len(starts):
            return len(self.text)
        start = starts[line - 1]
        if not self._ascii and not (text := self.lines[line - 1]).isascii():
            column = len(text.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))
        return min(start + column, len(self.text))

    def start(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> int:
        """The offset of the first character of a node."""
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> int:
        """The offset behind the last character of a node."""
        if node.end_lineno is None or node.end_col_offset is None:
            return self.start(node)
        return self.offset(node.end_lineno, node.end_col_offset)

    def segment(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> str:
        """The text of a node, without parentheses around it."""
        return self.text[self.start(node) : self.end(node)]

    def replace(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword, text: str) -> Edit:
        """The edit that puts `text` where the node is."""
        return Edit(self.start(node), self.end(node), text)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1, the column in characters."""
        line = bisect.bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line_at(self, line: int) -> str:
        """The text of a line, from 1; empty where there is none."""
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""

    @functools.cached_property
    def _f_strings(self) -> list[tuple[int, int]]:
        """Where the f-strings are."""
        if (
            "f'" not in (lower := self.text.lower())
            and 'f"' not in lower
            and 'fr"' not in lower
            and "fr'" not in lower
        ):
            return []
        return [(self.start(n), self.end(n)) for n in ast.walk(self.tree) if isinstance(n, ast.JoinedStr)]

    def is_placed(self, edit: Edit) -> bool:
        """Whether an edit is where its rule believes: before 3.12, `ast` misplaces what is in an f-string."""
        if not _MISPLACED_IN_F_STRINGS:
            return True
        return not any(start < edit.end and edit.start < end for start, end in self._f_strings)

    def finding(
        self,
        code: str,
        message: str,
        node: ast.expr | ast.stmt | ast.arg | ast.keyword,
        *,
        end: ast.expr | ast.stmt | None = None,
        fix: Fix | None = None,
        also: Sequence[tuple[str, int]] = (),
    ) -> Finding:
        """A finding at `node`, or from `node` to `end`. A fix whose place is not sure is left out."""
        line, column = self.place(self.start(node))
        end_line, end_column = self.place(self.end(end if end is not None else node))
        if fix is not None and not all(map(self.is_placed, fix.edits)):
            fix = None
        return Finding(code, message, line, column, end_line, end_column, fix, tuple(also))
