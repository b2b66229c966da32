"""What was found in a file as text, for the cache, and back."""

from __future__ import annotations

import dataclasses
import json

from .records import FileResult, Place, PlacedFinding, SkippedFile, UnusedComment

_NOTHING = FileResult()
_NOTHING_AS_TEXT = "{}"


def as_text(result: FileResult) -> str:
    """A result without the fixes that were made, as JSON."""
    if result == _NOTHING:
        return _NOTHING_AS_TEXT
    return json.dumps(
        {
            "findings": [dataclasses.asdict(each) for each in result.findings],
            "skipped": [dataclasses.asdict(each) for each in result.skipped],
            "unused": [dataclasses.asdict(each) for each in result.unused],
            "is_read": result.is_read,
        }
    )


def from_text(text: str) -> FileResult | None:
    """The result; None where the text is none of one."""
    if text == _NOTHING_AS_TEXT:
        return _NOTHING
    try:
        data = json.loads(text)
        findings = []
        for each in data["findings"]:
            also = tuple(Place(**place) for place in each["also"])
            findings.append(PlacedFinding(**{**each, "also": also}))
        return FileResult(
            findings=tuple(findings),
            skipped=tuple(SkippedFile(**each) for each in data["skipped"]),
            unused=tuple(UnusedComment(**each) for each in data["unused"]),
            is_read=bool(data["is_read"]),
        )
    except (ValueError, TypeError, KeyError):
        return None
