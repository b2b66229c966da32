"""How instances of a class are copied: by their `__dict__`, by a rule of ours, or by `copy.deepcopy`'s protocol."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from torch import nn

from .instances import is_by_dict, new_module
from .special import special_rule


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """How to copy the instances of one class.

    Attributes:
        by_dict: an instance is a new object with a copy of its `__dict__`; nothing of the class's own has a say.
        new: makes the new object.
        special: a rule of ours, called with the walk and the instance, or None.
    """

    by_dict: bool
    new: Callable[[type], Any] = object.__new__
    special: Callable[[Any, Any], Any] | None = None


def recipe_of(cls: type) -> Recipe:
    """How instances of `cls` are copied."""
    special = special_rule(cls)
    if special is not None:
        return Recipe(by_dict=False, special=special)
    if issubclass(cls, nn.Module):
        return Recipe(by_dict=is_by_dict(cls), new=new_module)
    return Recipe(by_dict=is_by_dict(cls))
