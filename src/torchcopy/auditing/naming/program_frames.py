"""What the frames of the program have: the names at the line that runs, and what they stand for."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from .sites import Sites

_MISSING = object()
_OWN_REFERENCES = 3  # the frame's, ours, and that of the question


def program_frames(frame: FrameType | None, sites: Sites) -> Iterator[FrameType]:
    """The frames of the program's own code, from the innermost on."""
    while frame is not None:
        if sites.is_program_code(frame.f_code):
            yield frame
        frame = frame.f_back


def values_in(frame: FrameType, names: set[str] | None = None) -> dict[str, Any]:
    """The local values of a frame, all or those with some names; the frame is left without a list of them.

    A frame that has made such a list keeps all its values alive with it, those too that the program lets go of.
    """
    there = frame.f_locals
    found = dict(there) if names is None else {name: there[name] for name in names if name in there}
    is_list = frame.f_code.co_flags & inspect.CO_OPTIMIZED and type(there) is dict
    if is_list and sys.getrefcount(there) <= _OWN_REFERENCES:  # otherwise the program has called `locals()`
        there.clear()
    return found


def evaluate(frame: FrameType, name: str) -> Any:
    """What `name`, with dots or without, stands for in a frame; None where only running code could tell."""
    first, *attributes = name.split(".")
    value = values_in(frame, {first}).get(first, frame.f_globals.get(first, _MISSING))
    for attribute in attributes:
        value = attribute_of(value, attribute)
    return None if value is _MISSING else value


def attribute_of(value: Any, name: str) -> Any:
    """An attribute that an object holds itself, or as a submodule or a parameter; no property is asked."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return _MISSING
    if type(held) is not dict:  # a class has another kind
        return _MISSING
    if name in held:
        return held[name]
    for store in ("_modules", "_parameters", "_buffers"):
        inner = held.get(store)
        if isinstance(inner, dict) and name in inner:
            return inner[name]
    return _MISSING
