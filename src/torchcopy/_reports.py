"""Reports that a record writes of itself: the reporter is loaded when it is called, and what it draws with.

The way back from a room to the reporters, so that `report.save(path)` and `print(report)` can be written where
people look for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .auditing.records import Report


def audit_as_text(report: Report) -> str:
    """What `print(report)` shows."""
    from .reporters.audit import as_text

    return as_text(report)


def save_audit(report: Report, path: Path) -> None:
    """What `Report.save` writes."""
    from .reporters.audit_files import save

    save(report, path)
