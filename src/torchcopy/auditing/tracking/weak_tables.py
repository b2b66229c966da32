"""Tables by the identity of objects that they do not keep alive."""

from __future__ import annotations

import functools
import weakref
from typing import Any, TypeVar

T = TypeVar("T")


def forget_with(watched: T, *tables: dict[int, Any]) -> tuple[weakref.ref[T], ...]:
    """References that take the entry of an object out of some tables when the object dies; keep them until then.

    That runs no code of Python's: a Ctrl-C that arrives while a callback of a reference runs would be lost.
    """
    identity = id(watched)
    return tuple(weakref.ref(watched, functools.partial(table.pop, identity)) for table in tables)
