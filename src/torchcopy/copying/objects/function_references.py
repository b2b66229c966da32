"""What a function can reach: closure, default arguments, and the global variables that its code reads."""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

GLOBAL_STEP = ".__globals__["
"""How a step to a global variable begins."""

# Whose globals are never the program's own, wherever they are installed.
_LIBRARIES = frozenset({"torch", "torchcopy", "torchvision", "torchaudio", "numpy", "transformers"})
_LOADS_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_STANDARD_LIBRARY = str(PurePath(dis.__file__).parent)
_module_dict = vars(types.ModuleType)["__dict__"].__get__


def function_references(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    """What `function` holds beside its attributes, with the steps that lead there.

    Global variables are given for functions of the program itself only, and only those that the code reads by
    name: a library's globals are its own, and no place where a program keeps its tensors.
    """
    closure = function.__closure__
    if closure is not None:
        for name, cell in zip(function.__code__.co_freevars, closure, strict=False):
            try:
                yield f".__closure__[{name!r}]", cell.cell_contents
            except ValueError:  # not bound yet
                continue
    for k, value in enumerate(function.__defaults__ or ()):
        yield f".__defaults__[{k}]", value
    for name, value in list((function.__kwdefaults__ or {}).items()):
        yield f".__kwdefaults__[{name!r}]", value
    if not in_library(function):
        yield from _globals_read(function)


def _globals_read(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    namespace = function.__globals__
    if type(namespace) is not dict:
        return
    # Names of attributes are among these names too; to tell them apart takes longer, and is seldom needed.
    named = [
        name for name in _names(function.__code__) if name in namespace and _is_state(namespace[name], namespace)
    ]
    if named:
        loaded = _names_loaded(function.__code__)
        for name in named:
            if name in loaded:
                yield f"{GLOBAL_STEP}{name!r}]", namespace[name]


def _is_state(value: object, namespace: dict[str, Any]) -> bool:
    """Whether a global variable can hold what the program made: no module, no class, no other module's function."""
    kind = type(value)
    if issubclass(kind, types.FunctionType):
        return value.__globals__ is namespace  # type: ignore[attr-defined]
    return not issubclass(kind, (types.ModuleType, type, types.BuiltinFunctionType))


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """Names that the code, or a function or comprehension inside of it, may look up; each once."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            names.update(dict.fromkeys(_names(constant)))
    return tuple(names)


@functools.lru_cache(maxsize=4096)
def _names_loaded(code: types.CodeType) -> frozenset[str]:
    """The names among them that are looked up as global variables."""
    own = {each.argval for each in dis.get_instructions(code) if each.opname in _LOADS_GLOBAL}
    return frozenset(own).union(*(_names_loaded(c) for c in code.co_consts if type(c) is types.CodeType))


def in_library(function: types.FunctionType) -> bool:
    """Whether `function` was written by others: for Python, PyTorch or any installed package."""
    namespace: dict[str, Any] = function.__globals__
    name, file = dict.get(namespace, "__name__"), dict.get(namespace, "__file__")
    return _is_library(name if type(name) is str else "", file if type(file) is str else "")


def module_in_library(name: str) -> bool:
    """The same of what is defined in the module called `name`."""
    module = sys.modules.get(name)
    file = _module_dict(module).get("__file__") if issubclass(type(module), types.ModuleType) else None
    return _is_library(name, file if type(file) is str else "")


@functools.lru_cache(maxsize=4096)
def _is_library(name: str, file: str) -> bool:
    top = name.partition(".")[0]
    if top in _LIBRARIES:
        return True
    if not file:
        return top in sys.stdlib_module_names or top == "builtins"
    parts = PurePath(file).parts
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    return top in sys.stdlib_module_names and file.startswith(_STANDARD_LIBRARY)
