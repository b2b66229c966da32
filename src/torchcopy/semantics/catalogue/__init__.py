"""The catalogue: every way to copy a tensor, named once, as data.

The table, the claims, the bench and the advice all read these entries; none of them keeps a list of its own.
"""

from __future__ import annotations

from .built_in import other_dtype
from .import_spec import import_callable
from .method import CopyMethod
from .registry import find_method, find_methods, register_method, unregister_method

__all__ = [
    "CopyMethod",
    "find_method",
    "find_methods",
    "import_callable",
    "other_dtype",
    "register_method",
    "unregister_method",
]
