"""What a bench's JSON file holds."""

from __future__ import annotations

from typing import Any

from ..bench.compare import Comparison
from ..bench.records import BenchReport


def as_data(report: BenchReport, comparison: Comparison | None) -> dict[str, Any]:
    """The report as plain data, with the comparison where there is one."""
    data = report.to_dict()
    if comparison is not None:
        data["comparison"] = comparison.to_dict()
    return data
