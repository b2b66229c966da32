"""JSON on stdout, and nothing else there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .._errors import InputError


def to_json(data: Any) -> str:
    """`data` as strict JSON: what JSON has no word for (NaN, infinities) is refused by the writer."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)


def print_json(data: Any) -> None:
    """Writes `data` to stdout."""
    sys.stdout.write(to_json(data) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes a whole file or leaves what was there.

    Raises:
        InputError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}") from error
