"""The protocol of `copy.deepcopy`: `__deepcopy__`, `copyreg`, `__reduce_ex__`, `__setstate__`.

Between it and the walk stands code that is not ours. What that code is about to see (a constructor's arguments, a
state) has its tensors filled in first; what a `__deepcopy__` makes shares the walk's memo.
"""

from __future__ import annotations

import copy
import copyreg
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from torch import Tensor, nn

from ... import _torch_private
from ..refusals import Uncopyable, says_no
from .nested_calls import waiting

if TYPE_CHECKING:
    from .walk import Walk

# What `copy.deepcopy` was taught by other libraries, beside its own table.
_deepcopy_table: dict[type, Callable[[Any, dict[int, Any]], Any]] = getattr(copy, "_deepcopy_dispatch", {})


def copy_by_protocol(walk: Walk, x: Any, cls: type) -> Any:
    """As `copy.deepcopy` treats what it has no special rule for, in the same order of precedence."""
    try:
        return _by_protocol(walk, x, cls)
    except Exception:
        if walk.failed_at is None:  # the innermost one knows best
            walk.failed_at = x
        raise


def _by_protocol(walk: Walk, x: Any, cls: type) -> Any:
    taught = _deepcopy_table.get(cls)
    if taught is not None:
        return call_foreign(walk, x, lambda: taught(x, walk.memo))
    if issubclass(cls, type):
        return walk.keep(x)
    own = getattr(x, "__deepcopy__", None)
    if own is not None:
        return call_foreign(walk, x, lambda: own(walk.memo))
    reduced = _reduce(x, cls)
    if isinstance(reduced, str):
        return walk.keep(x)
    y = _rebuild(walk, x, *reduced)
    walk.remember(x, y)
    return y


def call_foreign(walk: Walk, x: Any, call: Callable[[], Any]) -> Any:
    """What a `__deepcopy__` makes of `x`. It shares our memo, so its copies are ours and ours are its."""
    if isinstance(x, nn.Module):  # so that it finds them in the memo, copied as they should be
        for t in _tensors_of(x):
            walk.deep(t)
    walk.show_all()
    with waiting(walk):
        y = call()
    walk.remember(x, y)
    walk.keep(y)
    return y


def _tensors_of(module: nn.Module) -> list[Tensor]:
    own = [*module.parameters(), *module.buffers()]
    for each in module.modules():
        own.extend(value for value in vars(each).values() if isinstance(value, Tensor))
    return own


def _reduce(x: Any, cls: type) -> Any:
    reduce = copyreg.dispatch_table.get(cls)
    if reduce is not None:
        return reduce(x)
    reduce = getattr(x, "__reduce_ex__", None)
    if reduce is not None:
        try:
            return reduce(4)
        except (TypeError, RuntimeError, pickle.PickleError) as error:
            if says_no(error):
                raise Uncopyable(x) from error
            raise
    reduce = getattr(x, "__reduce__", None)
    if reduce is not None:
        return reduce()
    raise Uncopyable(x)


def _rebuild(
    walk: Walk,
    x: Any,
    make: Callable[..., Any],
    args: tuple[Any, ...],
    state: Any = None,
    list_items: Any = None,
    dict_items: Any = None,
) -> Any:
    """What `__reduce_ex__` describes, with copies of its parts."""
    before, walk.may_set_later = walk.may_set_later, False
    deep = walk.deep
    try:
        if args:
            args = tuple([deep(a) for a in args])
            if not _only_stores(make, args):
                walk.show_all()
        y = make(*args)
        walk.memo[id(x)] = y
        walk.alive.append(x)
        if state is not None:
            _set_state(walk, y, deep(state))
        if list_items is not None:
            for item in list_items:
                y.append(deep(item))
        if dict_items is not None:
            for key, value in dict_items:
                copied_key = deep(key)
                y[copied_key] = deep(value)
    finally:
        walk.may_set_later = before
    return y


def _set_state(walk: Walk, y: Any, state: Any) -> None:
    """Gives `y` its copied state, as `copy.deepcopy` does."""
    own = getattr(y, "__setstate__", None)
    if own is not None:
        if not _only_stores_state(own):
            walk.show_all()
        own(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state is not None:
        y.__dict__.update(state)
    if slots is not None:
        for name, value in slots.items():
            try:
                setattr(y, name, value)
            except (AttributeError, TypeError):  # frozen, by a `__setattr__` of its own
                object.__setattr__(y, name, value)


# --- whom the walk need not show its tensors to ---------------------------------------------------------------

_ONLY_STORE_STATE: Final = ("torch.nn.modules.", "torch.optim.")
"""Modules whose `__setstate__`s store what they get, and read no values."""

_MAKERS: Final = frozenset({"builtins", "_collections", "collections", "functools", "copyreg", "torch"})


def _only_stores_state(method: Any) -> bool:
    """Whether a `__setstate__` stores what it gets, and reads no values."""
    home = getattr(method, "__module__", None) or ""
    return home.startswith(_ONLY_STORE_STATE) or _torch_private.is_of_module_tagging(method)


def _only_stores(make: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether `make` stores its arguments, and reads no values."""
    if make.__module__ == "copyreg" and args:
        made: Any = args[0]
        name = getattr(make, "__name__", "")
        return name != "__newobj_ex__" and getattr(made, "__new__", None) is object.__new__
    return isinstance(make, type) and make.__module__ in _MAKERS
