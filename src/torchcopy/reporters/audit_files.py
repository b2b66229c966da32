"""What an audit's report is saved to."""

from __future__ import annotations

import json
from pathlib import Path

from .._errors import InputError
from ..auditing.records import Report
from .as_json import to_json
from .files import write_text


def save(report: Report, path: Path) -> None:
    """Writes the report, as a page or as JSON by the end of the name; the file is written whole or not at all.

    Raises:
        InputError: the name ends in something else, or the file cannot be written.
    """
    kind = path.suffix.lower()
    if kind not in (".html", ".json"):
        raise InputError(f"cannot save an audit report as {str(path)!r}: the name has to end in .html or .json")
    if kind == ".json":
        write_text(path, _json(report) + "\n")
        return
    from .audit_html import render

    write_text(path, render(report))


def _json(report: Report) -> str:
    """The report as JSON. What UTF-8 cannot hold, half a surrogate pair in a file's name, is written escaped."""
    text = to_json(report.to_dict())
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(report.to_dict(), indent=2, allow_nan=False)
    return text
