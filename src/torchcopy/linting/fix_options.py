"""Which fixes a run makes, and whether it writes them."""

from __future__ import annotations

import dataclasses
from typing import Literal

Fixes = Literal["none", "shown", "written"]


@dataclasses.dataclass(frozen=True, slots=True)
class FixOptions:
    """What is to be done about what is found.

    Attributes:
        fixes: whether fixes are made, and written.
        unsafe: whether fixes that may change what the program computes are among them.
    """

    fixes: Fixes = "none"
    unsafe: bool = False
