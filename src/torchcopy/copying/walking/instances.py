"""Which instances are no more than their `__dict__`."""

from __future__ import annotations

import copyreg
from typing import Any

from torch import nn

from ... import _torch_private


class _Plain:
    """What a class without a rule of its own looks like."""


def is_by_dict(cls: type) -> bool:
    """Whether the protocol would come to: a bare new object, and a copy of its `__dict__`."""
    return (
        cls not in copyreg.dispatch_table
        and not issubclass(cls, type)
        # No slots, and no base class written in C: the `__dict__` is all there is.
        and cls.__basicsize__ == _Plain.__basicsize__
        and cls.__itemsize__ == 0
        and cls.__dictoffset__ == _Plain.__dictoffset__
        and all(isinstance(vars(base).get("__dict__", _DICT), _DICT_TYPE) for base in cls.__mro__)
        and cls.__new__ is object.__new__
        and cls.__getattribute__ is object.__getattribute__
        and cls.__reduce_ex__ is object.__reduce_ex__
        and cls.__reduce__ is object.__reduce__
        and not hasattr(cls, "__getnewargs__")
        and not hasattr(cls, "__getnewargs_ex__")
        and all(
            _adds_nothing(cls, name) for name in ("__getattr__", "__getstate__", "__setstate__", "__deepcopy__")
        )
    )


_DICT: Any = vars(_Plain)["__dict__"]
_DICT_TYPE = type(_DICT)
_PARAMETRIZE = "torch.nn.utils.parametrize"


def is_parametrized(cls: type) -> bool:
    """Whether `torch.nn.utils.parametrize` made the class, for one module."""
    return getattr(vars(cls).get("__getstate__"), "__module__", None) == _PARAMETRIZE


def _adds_nothing(cls: type, name: str) -> bool:
    """Whether the class lacks the method, or has one of PyTorch's that does what would be done without it.

    `nn.Module.__getstate__` leaves out what `Module.compile` adds, and the walk looks for that. `__setstate__` of
    modules in `torch.nn` adds what pickles of older versions lack; the instance at hand has it.
    `torch.nn.utils.parametrize` gives its classes a `__getstate__` that refuses to pickle, and a `__deepcopy__`
    that copies the `__dict__`.
    """
    method = getattr(cls, name, None)
    if method is None or method is getattr(object, name, None):
        return True
    module = getattr(method, "__module__", None) or ""
    if name == "__deepcopy__" or module == _PARAMETRIZE:
        return module == _PARAMETRIZE
    own = module.startswith("torch.nn.modules.") or _torch_private.is_of_module_tagging(method)
    return issubclass(cls, nn.Module) and own


def new_module(cls: type) -> Any:
    """A bare new module. `torch.compile` hears of it, if it has replaced `Module.__setstate__` for that."""
    y: Any = object.__new__(cls)
    if _torch_private.is_of_module_tagging(nn.Module.__setstate__):
        _torch_private.tag_module(y)
    return y
