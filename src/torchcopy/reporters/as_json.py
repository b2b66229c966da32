"""JSON on stdout, and nothing else there."""

from __future__ import annotations

import json
import sys
from typing import Any


def to_json(data: Any) -> str:
    """`data` as strict JSON: what JSON has no word for (NaN, infinities) is refused by the writer."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)


def print_json(data: Any) -> None:
    """Writes `data` to stdout."""
    sys.stdout.write(to_json(data) + "\n")
