"""What the catalogue knows of one way to copy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from torch import Tensor


@dataclasses.dataclass(frozen=True)
class CopyMethod:
    """One way to copy a tensor.

    Attributes:
        id: the name used in reports and for `--method`.
        code: the expression as a user writes it; `t` is the tensor that is copied.
        run: does what `code` says to the tensor it is given.
        purpose: what it is for, in one sentence.
        prefer: the id of the method to use instead, or None where this one is right for its purpose.
        why: why the other one is to be preferred, or what to know about this one.
    """

    id: str
    code: str
    run: Callable[[Tensor], Tensor] = dataclasses.field(repr=False)
    purpose: str = ""
    prefer: str | None = None
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The entry as plain data, ready for JSON; the function itself is left out."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "run"}
