"""Comments that silence findings: `# torchcopy: ignore[TC201]`, `# torchcopy: ignore` for all."""

from __future__ import annotations

import linecache
from collections.abc import Iterable

from ...semantics.codes.comments import SilencingComment, find_comments
from ..records import Finding, SourceLine
from .sites import shown_path


class Ignores:
    """The comments in some files, and which of them have silenced something."""

    def __init__(self, files: Iterable[str]) -> None:
        self._comments: dict[tuple[str, int], SilencingComment] = {}
        self._used: set[tuple[str, int]] = set()
        for path in files:
            for comment in find_comments("".join(linecache.getlines(path))):
                self._comments[shown_path(path), comment.line] = comment

    def silences(self, finding: Finding) -> bool:
        """Whether a comment at one of the lines of a finding silences it."""
        silenced = False
        for place in finding.places:
            key = (place.line.path, place.line.line)
            comment = self._comments.get(key)
            if comment is not None and comment.silences(finding.code):
                self._used.add(key)
                silenced = True
        return silenced

    def unused(self) -> tuple[SourceLine, ...]:
        """The comments that have silenced nothing."""
        return tuple(
            SourceLine(path=path, line=line, column=c.column, end_column=c.end_column, text=c.text)
            for (path, line), c in sorted(self._comments.items(), key=lambda item: item[0])
            if (path, line) not in self._used
        )
