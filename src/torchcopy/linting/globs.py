"""Patterns of paths, as `exclude` and `per-file-ignores` have them: `tests/**`, `*_pb2.py`, `legacy`."""

from __future__ import annotations

import functools
import re


class PathPatterns:
    """Some patterns, relative to one folder.

    One without a slash fits any folder or file of that name; one with a slash begins at the folder. What fits a
    folder fits all that is in it. `*` and `?` stop at a slash, `**` does not.
    """

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._fitting = _compiled(patterns) if patterns else None

    def fit(self, relative: str) -> bool:
        """Whether one fits the path, given with slashes and relative to the folder."""
        return self._fitting is not None and self._fitting.match(relative) is not None


@functools.lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{_translate(pattern)})" for pattern in patterns), re.DOTALL)


def _translate(pattern: str) -> str:
    pattern = pattern.replace("\\", "/").removeprefix("./").rstrip("/")
    start = "" if "/" in pattern else r"(?:.*/)?"
    return f"{start}{_body(pattern.lstrip('/'))}(?:/.*)?$"


def _body(pattern: str) -> str:
    """The regular expression of a pattern's own text."""
    parts = []
    for token in re.findall(r"\*\*/|/\*\*$|\*+|\?|\[!?\]?[^\]]*\]|[^*?\[]+|\[", pattern):
        match token:
            case "**/":
                parts.append(r"(?:.*/)?")
            case "/**":
                parts.append(r"/.*")
            case "*":
                parts.append(r"[^/]*")
            case "?":
                parts.append(r"[^/]")
            case _ if token.startswith("*"):
                parts.append(r".*")
            case _ if token.startswith("[") and token.endswith("]"):
                inner = token[1:-1].replace("\\", r"\\")
                parts.append(f"[{'^' + inner[1:] if inner.startswith('!') else inner}]")
            case _:
                parts.append(re.escape(token))
    return "".join(parts)
