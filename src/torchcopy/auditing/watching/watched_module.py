"""The functions of torch's own module, seen where a program asks for them, and left as they are for torch itself.

torch keeps tables of its functions: which ones take a device, which ones a compiler knows. A function that stood in
for another would get into them, and stay there. So torch's dictionary keeps its own, and only an expression like
`torch.save` in other code than torch's is given something else.
"""

from __future__ import annotations

import dis
import functools
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, MethodType, ModuleType
from typing import Any

import torch

_TORCH = str(Path(torch.__file__).parent) + os.sep
_ASKS = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")
_PICKLES_MODULES = ("cloudpickle", "dill")  # which know a module by its exact type


class WatchedModule:
    """Has a module hand out other functions to the program.

    Args:
        module: torch.
        functions: what is handed out, by name.
    """

    def __init__(self, module: ModuleType, functions: dict[str, Callable[..., Any]]) -> None:
        self._module, self._before = module, type(module)
        self._asks: dict[tuple[int, int], tuple[CodeType, str]] = {}
        names: dict[str, Any] = {name: self._property(name, made) for name, made in functions.items()}
        names |= {"__module__": self._before.__module__, "__reduce_ex__": _reduce}
        self._type = type(self._before.__name__, (self._before,), names)
        module.__class__ = self._type

    def remove(self) -> None:
        """Gives the module its own type back, if nobody has given it another since."""
        if type(self._module) is self._type:
            self._module.__class__ = self._before

    def _property(self, name: str, made: Callable[..., Any]) -> property:
        there, title = vars(self._module), self._module.__name__
        original = there[name]
        kind = _Method if hasattr(type(original), "__get__") else _Function
        handed_out = kind(made)
        functools.update_wrapper(handed_out, original)
        handed_out.home = title, name

        def get(module: ModuleType) -> Any:
            found = there.get(name, there)
            if found is there:
                raise AttributeError(f"module {title!r} has no attribute {name!r}", name=name, obj=module)
            return handed_out if found is original and self._asked_by(sys._getframe(1)) == name else found

        def set_(_: ModuleType, value: Any) -> None:
            there[name] = value

        def delete(_: ModuleType) -> None:
            if there.pop(name, there) is there:
                raise AttributeError(name)

        return property(get, set_, delete)

    def _asked_by(self, frame: FrameType) -> str:
        """The name of the attribute that a frame asks for at this moment; empty where that is torch's own code.

        A compiler looks at attributes too, to see whether they are those that it knew: nobody's code asks then.
        """
        if frame.f_code.co_filename.startswith("<"):  # of `eval`: it is whose who has called that
            asked_by = frame.f_back
            is_torch = asked_by is not None and asked_by.f_code.co_filename.startswith(_TORCH)
            return "" if is_torch else _asked_at(frame.f_code, frame.f_lasti)
        key = id(frame.f_code), frame.f_lasti
        there = self._asks.get(key)
        if there is None:
            there = self._asks[key] = frame.f_code, _asked_at(frame.f_code, frame.f_lasti)
        return there[1]


class _Function(functools.partial[Any]):
    """Calls a wrapper without a frame between; equals the function that it stands for, and is pickled as that."""

    home: tuple[str, str]

    def __eq__(self, other: object) -> bool:
        return bool(vars(self)["__wrapped__"] == getattr(other, "__wrapped__", other))

    def __hash__(self) -> int:
        return hash(vars(self)["__wrapped__"])

    def __repr__(self) -> str:
        return repr(vars(self)["__wrapped__"])

    def __reduce__(self) -> Any:
        module, name = self.home
        return getattr, (_ByName(module), name)


class _Method(_Function):
    """Binds to the object that it is an attribute of, as functions written in Python do: `save = torch.save`."""

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self if owner is None else MethodType(self, owner)


class _ByName:
    """Is pickled as a module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> Any:
        return importlib.import_module, (self._name,)


def _asked_at(code: CodeType, instruction: int) -> str:
    if code.co_filename.startswith(_TORCH):
        return ""
    at = next((each for each in dis.get_instructions(code) if each.offset == instruction), None)
    return str(at.argval) if at is not None and at.opname in _ASKS else ""


def _reduce(module: ModuleType, protocol: Any) -> Any:
    asked_by = Path(sys._getframe(1).f_code.co_filename).parts
    if any(name in asked_by for name in _PICKLES_MODULES):
        return importlib.import_module, (module.__name__,)
    return ModuleType.__reduce_ex__(module, protocol)
