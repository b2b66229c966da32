"""What was found in a file as text, for the cache, and back."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, TypeVar

from ..semantics.codes import CODES
from .records import FileResult, Place, PlacedFinding, SkippedFile, UnusedComment

_TYPES: dict[Any, type] = {"str": str, "int": int, "bool": bool}
_FIELDS: dict[type, dict[str, type]] = {
    kind: {field.name: _TYPES[field.type] for field in dataclasses.fields(kind) if field.type in _TYPES}
    for kind in (Place, PlacedFinding, SkippedFile, UnusedComment)
}
_CODES = frozenset(code.code for code in CODES)
_Record = TypeVar("_Record", Place, PlacedFinding, SkippedFile, UnusedComment)
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
            also = tuple(_record(Place, place) for place in each.pop("also"))
            finding = dataclasses.replace(_record(PlacedFinding, each), also=also)
            if finding.code not in _CODES:
                return None
            findings.append(finding)
        return FileResult(
            findings=tuple(findings),
            skipped=tuple(_record(SkippedFile, each) for each in data["skipped"]),
            unused=tuple(_record(UnusedComment, each) for each in data["unused"]),
            is_read=bool(data["is_read"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _record(kind: type[_Record], given: dict[str, Any]) -> _Record:
    """The record with these fields.

    Raises:
        TypeError: there is no such field, one is missing, or one is of another type.
    """
    types = _FIELDS[kind]
    for name, value in given.items():
        if type(value) is not types.get(name) or (type(value) is int and value < 0):
            raise TypeError(f"no {name} of {kind.__name__}: {value!r}")
    return kind(**given)
