"""Methods of types that Python code cannot assign to: `torch.Event` and `torch.Stream` are written in C."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
from collections.abc import Callable
from typing import Any


def wrap_method(owner: type, name: str, make: Callable[[Any], Any]) -> Callable[[], None] | None:
    """Puts `make(method)` in place of a method of `owner`, also where the type is immutable.

    Returns:
        What puts the method back, unless somebody has replaced it since; None where it cannot be replaced.
    """
    before = vars(owner).get(name)
    if before is None:
        return None
    made = make(before)
    functools.update_wrapper(made, before)

    def restore() -> None:
        if vars(owner).get(name) is made:
            _put(owner, name, before)

    _put(owner, name, made)
    return restore if vars(owner).get(name) is made else None


def _put(owner: type, name: str, value: Any) -> None:
    with contextlib.suppress(TypeError):  # the type is immutable
        setattr(owner, name, value)
        return
    found = gc.get_referents(vars(owner))  # the dict behind the read-only view, in CPython
    if len(found) == 1 and type(found[0]) is dict and name in found[0]:
        found[0][name] = value
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))  # forgets what was looked up before
