"""What every part of a run can do, and what it takes to restore one."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Final, Literal

from torch import Tensor

Kind = Literal["module", "optimizer", "stateful", "values", "tensor", "generator", "rng"]
DESCRIBED: Final[dict[Kind, str]] = {
    "module": "a module",
    "optimizer": "an optimizer",
    "stateful": "an object with `state_dict`",
    "values": "plain values",
    "tensor": "a tensor",
    "generator": "a random generator",
    "rng": "the shared random generators",
}


@dataclasses.dataclass
class Load:
    """A call of somebody else's code that sets a state, and the one that sets it back."""

    path: str
    load: Callable[[], object]
    undo: Callable[[], object]


@dataclasses.dataclass
class RestorePlan:
    """All that is to be done to restore a part, found out before any of it is.

    Attributes:
        differences: what does not match, a line each; nothing is done where there are any.
        pairs: (path, live tensor, saved tensor) of one shape and dtype.
        loads: what may still raise, and how it is undone.
        actions: what cannot raise any more.
    """

    differences: list[str] = dataclasses.field(default_factory=list)
    pairs: list[tuple[str, Tensor, Tensor]] = dataclasses.field(default_factory=list)
    loads: list[Load] = dataclasses.field(default_factory=list)
    actions: list[Callable[[], object]] = dataclasses.field(default_factory=list)


class Part(abc.ABC):
    """One object of a run, under the name that the user gave it.

    Attributes:
        name: as in `History(name=object)`.
        target: the object.
    """

    kind: ClassVar[Kind]

    def __init__(self, name: str, target: Any) -> None:
        self.name, self.target = name, target

    @abc.abstractmethod
    def state(self) -> Any:
        """The state as it is now: its tensors are the live ones, or share their memory."""

    @abc.abstractmethod
    def plan(self, saved: Any) -> RestorePlan:
        """How `saved`, which is read and never handed on, gets back into the object."""

    def gradients_of(self) -> list[Tensor]:
        """The leaves whose gradients are none of the restored state's."""
        return []
