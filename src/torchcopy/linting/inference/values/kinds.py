"""What kind of thing a value is, as far as a rule wants to know."""

from __future__ import annotations

import dataclasses
from typing import Literal

KindName = Literal[
    "unknown",
    "tensor",
    "parameter",
    "module",
    "optimizer",
    "scheduler",
    "ndarray",
    "number",
    "text",
    "list",
    "dict",
    "state_dict",
    "iterator",
    "stream",
    "other",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """What is known of a value.

    Attributes:
        name: `other` is known to be none of the rest; `list` is for tuples and sets too; `iterator` yields
            `element`s; `parameter` is a tensor that an optimizer trains.
        of: the class of a module or optimizer (`torch.nn.Linear`); where the module of a `state_dict` is written
            (`self.model`).
        graph: of a tensor, whether it hangs on a graph; `None` where that is not known.
        device: of a tensor, `cpu` or `cuda` where that is known.
        element: of a list, dict, state dict or iterator, what is in it.
        pairs: of an iterator, whether it yields `(key, element)`.
    """

    name: KindName = "unknown"
    of: str = ""
    graph: bool | None = None
    device: Literal["", "cpu", "cuda"] = ""
    element: Kind | None = None
    pairs: bool = False

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor or parameter for sure."""
        return self.name in ("tensor", "parameter")

    @property
    def is_known(self) -> bool:
        """Whether anything is known."""
        return self.name != "unknown"


UNKNOWN = Kind()
OTHER = Kind("other")
NUMBER = Kind("number")
TEXT = Kind("text")
TENSOR = Kind("tensor")
DETACHED = Kind("tensor", graph=False)
IN_GRAPH = Kind("tensor", graph=True)
PARAMETER = Kind("parameter")
MODULE = Kind("module")
SCHEDULER = Kind("scheduler")
NDARRAY = Kind("ndarray")
LIST = Kind("list")
DICT = Kind("dict")


def joined(kinds: list[Kind]) -> Kind:
    """What is known of a value that may be any of `kinds`."""
    first = kinds[0] if kinds else UNKNOWN
    for kind in kinds[1:]:
        if kind == first:
            continue
        if kind.name != first.name:
            if kind.is_tensor and first.is_tensor:
                first = TENSOR
                continue
            return UNKNOWN
        first = dataclasses.replace(
            first,
            of=first.of if first.of == kind.of else "",
            graph=first.graph if first.graph == kind.graph else None,
            device=first.device if first.device == kind.device else "",
            element=first.element if first.element == kind.element else None,
        )
    return first
