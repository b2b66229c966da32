"""`PACKAGE.MODULE:NAME`, as the command line takes functions and factories of the user's."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ..._errors import InputError


def import_callable(spec: str, what: str) -> Callable[..., Any]:
    """What `package.module:attribute` names.

    Raises:
        InputError: one line saying which part is missing.
    """
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise InputError(f"{what} {spec!r} must read PACKAGE.MODULE:NAME, such as `mypackage.models:build`")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:  # the user's module may fail in any way at import
        raise InputError(
            f"{what} {spec!r}: importing {module_name!r} failed: {type(error).__name__}: {error}"
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise InputError(f"{what} {spec!r}: {module_name!r} has no attribute {attribute!r}")
        found = getattr(found, part)
    if not callable(found):
        raise InputError(f"{what} {spec!r}: `{attribute}` is {type(found).__name__}, not something to call")
    result: Callable[..., Any] = found
    return result
