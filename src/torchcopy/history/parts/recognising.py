"""Which kind of part an object is."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

from ..._errors import InputError
from ...copying.walking.walk import IMMUTABLE
from .module import ModulePart
from .optimizer import OptimizerPart
from .part import Part
from .random_numbers import GeneratorPart, is_generator
from .stateful import StatefulPart
from .values import ValuesPart

_VALUES = (Tensor, np.ndarray, np.generic, dict, list, tuple)


def part_for(name: str, target: Any) -> Part:
    """The part that reads and restores `target`.

    Raises:
        InputError: `target` is a class, a function or the like, of which there is no state.
    """
    if isinstance(target, type):
        raise InputError(f"`{name}` is a class, {target.__name__}: give an object that has a state")
    if isinstance(target, nn.Module):
        return ModulePart(name, target)
    if isinstance(target, Optimizer):
        return OptimizerPart(name, target)
    if is_generator(target):
        return GeneratorPart(name, target)
    has = [callable(getattr(target, method, None)) for method in ("state_dict", "load_state_dict")]
    if all(has):
        return StatefulPart(name, target)
    if any(has):
        missing = "load_state_dict" if has[0] else "state_dict"
        raise InputError(f"`{name}`, a {type(target).__name__}, has no `{missing}`: it could not be restored")
    if callable(target):
        raise InputError(f"`{name}` is a function: give an object that has a state")
    if not (isinstance(target, _VALUES) or type(target) in IMMUTABLE):
        raise InputError(
            f"`{name}`, a {type(target).__name__}, has no `state_dict` and no `load_state_dict`, and is no tensor, "
            "array, dict, list or plain value: it could not be restored"
        )
    return ValuesPart(name, target)
