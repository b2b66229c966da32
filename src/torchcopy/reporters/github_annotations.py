"""Findings as annotations of a GitHub workflow: printed by a step, they are shown at their lines of a pull request.

The format is that of GitHub's workflow commands: `::error file=train.py,line=3,title=TC101::what is wrong`.
"""

from __future__ import annotations

from collections.abc import Iterable

from .diagnostics import Diagnostic, Level

_COMMANDS: dict[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}


def as_github_annotations(diagnostics: Iterable[Diagnostic]) -> str:
    """A line for each finding; nothing where there is none."""
    return "".join(f"{_annotation(diagnostic)}\n" for diagnostic in diagnostics)


def _annotation(diagnostic: Diagnostic) -> str:
    properties: dict[str, object] = {}
    if diagnostic.path:
        properties["file"] = diagnostic.path.replace("\\", "/")
        if diagnostic.line:
            properties["line"] = properties["endLine"] = diagnostic.line
            if diagnostic.column is not None:
                properties["col"] = diagnostic.column
            if diagnostic.column is not None and diagnostic.end_column is not None:
                properties["endColumn"] = diagnostic.end_column
    properties["title"] = f"torchcopy {diagnostic.code}"
    given = ",".join(f"{name}={_escape_property(str(value))}" for name, value in properties.items())
    return f"::{_COMMANDS[diagnostic.level]} {given}::{_escape(_text(diagnostic))}"


def _text(diagnostic: Diagnostic) -> str:
    lines = [f"{diagnostic.message} ({diagnostic.count:,} times)" if diagnostic.count > 1 else diagnostic.message]
    lines += [f"{other.path}:{other.line}: {other.message}" for other in diagnostic.related]
    if diagnostic.fix:
        lines.append(f"Fix: {diagnostic.fix}")
    return "\n".join(lines)


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
