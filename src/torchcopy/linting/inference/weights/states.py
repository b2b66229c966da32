"""A live state in a place, and the reads of places: what the flow through a function tells."""

from __future__ import annotations

import ast
import dataclasses

from .kept import Kept


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """A live state in a place.

    Attributes:
        place: `best`, `self.best`, `ckpt['model']`, `states[*]`.
        kept: what it is.
        is_trained: its model was trained since.
        is_of_former_model: what its module is written as is another model by now.
        was_named_older: it came from a place that is named as that of an older or the best one.
        is_of_former_pass: the loop over the models that it is of was begun again since.
    """

    place: str
    kept: Kept
    is_trained: bool = False
    is_of_former_model: bool = False
    was_named_older: bool = False
    is_of_former_pass: bool = False


TRAINED = State("", Kept("", "", ast.Constant(0)))
"""Stands for: an optimizer has taken a step."""
FILLED = Kept("", "", ast.Constant(1))
"""Stands for: an attribute, which is its `module`, has got a value."""


@dataclasses.dataclass(slots=True)
class Use:
    """A read of a place that held no state of this function, which is in the file at `path`."""

    path: str
    place: str
    node: ast.AST
    module: str
    since_made: frozenset[str] | None = None  # own methods called since the module was made anew, if it was
    role: str = "loaded"

    @property
    def is_with_module(self) -> bool:
        """Whether it is loaded into its module, or compared with it; otherwise it is saved or returned."""
        return self.role in ("loaded", "compared")
