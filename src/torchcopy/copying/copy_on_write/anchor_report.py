"""What anchors hold, as a record."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class AnchorReport:
    """What anchors hold at one moment.

    Attributes:
        anchors: buffers that are, or until a moment ago were, shared by lazy clones.
        held_bytes: bytes of those that nothing but their anchor keeps alive any more.
    """

    anchors: int
    held_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)
