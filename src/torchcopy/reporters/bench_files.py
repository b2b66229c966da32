"""Writes the files a bench is asked for: JSON, plot and page, each whole or not at all."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from .._errors import InputError
from ..bench.compare import Comparison
from ..bench.records import BenchReport


def as_data(report: BenchReport, comparison: Comparison | None) -> dict[str, Any]:
    """The report as plain data, with the comparison where there is one."""
    data = report.to_dict()
    if comparison is not None:
        data["comparison"] = comparison.to_dict()
    return data


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a whole file or leaves what was there.

    Raises:
        InputError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}") from error
