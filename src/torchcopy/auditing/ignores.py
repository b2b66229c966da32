"""Comments that silence findings: `# torchcopy: ignore[TC201]`, `# torchcopy: ignore` for all."""

from __future__ import annotations

import io
import linecache
import re
import tokenize
from collections.abc import Iterable

from .records import Finding, SourceLine
from .sites import shown_path

_COMMENT = re.compile(r"#\s*torchcopy:\s*ignore(?:\[([A-Z0-9,\s]*)\])?")


class Ignores:
    """The comments in some files, and which of them have silenced something."""

    def __init__(self, files: Iterable[str]) -> None:
        self._codes: dict[tuple[str, int], tuple[str, ...]] = {}
        self._lines: dict[tuple[str, int], SourceLine] = {}
        self._used: set[tuple[str, int]] = set()
        for path in files:
            self._read(path)

    def _read(self, path: str) -> None:
        text = "".join(linecache.getlines(path))
        if "torchcopy:" not in text:
            return
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        except (tokenize.TokenError, SyntaxError):
            return
        for token in tokens:
            found = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
            if found is not None:
                number, column = token.start
                key = (shown_path(path), number)
                self._codes[key] = tuple(code.strip() for code in (found[1] or "").split(",") if code.strip())
                self._lines[key] = SourceLine(
                    path=key[0],
                    line=number,
                    column=column + found.start() + 1,
                    end_column=column + found.end() + 1,
                    text=token.line.rstrip("\n"),
                )

    def silences(self, finding: Finding) -> bool:
        """Whether a comment at one of the lines of a finding silences it."""
        silenced = False
        for place in finding.places:
            key = (place.line.path, place.line.line)
            codes = self._codes.get(key)
            if codes is not None and (not codes or any(finding.code.startswith(code) for code in codes)):
                self._used.add(key)
                silenced = True
        return silenced

    def unused(self) -> tuple[SourceLine, ...]:
        """The comments that have silenced nothing."""
        return tuple(line for key, line in sorted(self._lines.items()) if key not in self._used)
