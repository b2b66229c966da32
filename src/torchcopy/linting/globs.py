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
        self._patterns = patterns

    def fit(self, relative: str) -> bool:
        """Whether one fits the path, given with slashes and relative to the folder, or a folder above it."""
        return bool(self._patterns) and _compiled(self._patterns, "(?:/.*)?").fullmatch(relative) is not None

    def fit_itself(self, relative: str) -> bool:
        """Whether one fits the path, and not only a folder above it."""
        return bool(self._patterns) and _compiled(self._patterns, "").fullmatch(relative) is not None


@functools.lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...], behind: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{_translate(pattern)}{behind})" for pattern in patterns), re.DOTALL)


def _translate(pattern: str) -> str:
    pattern = pattern.replace("\\", "/").removeprefix("./").rstrip("/")
    start = "" if "/" in pattern else r"(?:.*/)?"
    return f"{start}{_body(pattern.lstrip('/'))}"


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
                parts.append(_set(token[1:-1]))
            case _:
                parts.append(re.escape(token))
    return "".join(parts)


def _set(inner: str) -> str:
    """The regular expression of what stands between brackets: characters and ranges, or with `!` all others."""
    is_negated = inner.startswith("!")
    inner = inner.removeprefix("!")
    parts = []
    for first, last in re.findall(r"(.)(?:-(.))?", inner, re.DOTALL):
        if not last:
            parts.append(re.escape(first))
        elif first <= last:  # a range that runs backwards holds nothing
            parts.append(f"{re.escape(first)}-{re.escape(last)}")
    if not parts:
        return r"[^/]" if is_negated else r"(?!)"
    return f"[^/{''.join(parts)}]" if is_negated else f"[{''.join(parts)}]"
