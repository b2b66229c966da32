"""What each Python object holds, and how Python would write the way to it.

Reads only, and runs no code of the objects' classes: no property, no `__getattr__`, no `__iter__`, `__eq__` or
`__hash__`. Attributes come from the instance's `__dict__` and slots, the items of a container from the built-in
type that it derives from, and the contents of a C type from the garbage collector.
"""

from __future__ import annotations

import enum
import functools
import gc
import itertools
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .function_references import function_references, module_in_library

Child = tuple[str, object]
"""A step as Python writes it, and what is there: `(".weight", …)`, `("['optimizer']", …)`, `("[3]", …)`."""

# Without contents; most of what a program holds is this, so that it is sorted out first and by identity.
_PLAIN_TYPES: tuple[type, ...] = (
    *(type(None), bool, int, float, complex, str, bytes, bytearray, range, type(...), type(NotImplemented)),
    *(types.CodeType, torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size),
)
PLAIN = frozenset(map(id, _PLAIN_TYPES))
"""The `id` of each type whose values hold nothing."""

# They are found but not entered: behind them lies the rest of the program.
_CLOSED = (types.ModuleType, types.FrameType, types.TracebackType)

_LONGEST_KEY = 60

_KEYS_BY_REPR = frozenset(
    map(id, (str, bytes, int, float, complex, bool, type(None), torch.dtype, torch.device, torch.Size))
)

# What these hold is read with the descriptors of the C type itself: a subclass may have put a property over it.
_MEMBERS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (functools.partial, ("func", "args", "keywords")),
    (types.MethodType, ("__self__", "__func__")),
    (types.BuiltinMethodType, ("__self__",)),
    (types.MethodWrapperType, ("__self__",)),
    (property, ("fget", "fset", "fdel")),
    (staticmethod, ("__func__",)),
    (classmethod, ("__func__",)),
    (types.CellType, ("cell_contents",)),
    (BaseException, ("args",)),
)

_ITEMS: tuple[tuple[type, Callable[[Any], Iterator[object]]], ...] = (
    (list, list.__iter__),
    (tuple, tuple.__iter__),
    (deque, deque.__iter__),
)
_UNORDERED: tuple[tuple[type, Callable[[Any], Iterator[object]]], ...] = (
    (set, set.__iter__),
    (frozenset, frozenset.__iter__),
)

# Nothing but items; by identity, for a metaclass may have an `__eq__` of its own.
_BUILT_IN = frozenset(map(id, (list, dict, tuple, set, frozenset, deque)))

# As `cls.__dict__` and so on, whatever the metaclass says.
_class_dict: Callable[[type], types.MappingProxyType[str, Any]] = vars(type)["__dict__"].__get__
_class_mro: Callable[[type], tuple[type, ...]] = vars(type)["__mro__"].__get__
_class_module: Callable[[type], object] = vars(type)["__module__"].__get__
type_name: Callable[[type], str] = vars(type)["__name__"].__get__
"""`cls.__name__`, the metaclass unasked."""


def children(obj: object, *, most_items: int | None = None) -> Iterator[Child]:
    """What `obj` holds, each with the step that leads from `obj` to it.

    Nothing is copied, written or computed, and no tensor is read. Values without contents (numbers, strings, …)
    are left out. Python modules, frames, strings and arrays of numbers hold nothing here, and a class holds its
    own attributes.

    Args:
        obj: any object, however hostile its class.
        most_items: how many items of one container to look at; None for all.

    Yields:
        `(step, child)`: `.weight`, `['optimizer']`, `[3]`, `.__closure__['model']`, `.__defaults__[0]`, `.args[0]`,
        `()` for what a weak reference stands for, `.keys()[2]` for a key, `.<item 2>` where Python has no way to
        write it.
    """
    kind = type(obj)
    if id(kind) in PLAIN or issubclass(kind, _CLOSED):
        return
    for step, child in _all_children(obj, kind, most_items):
        if id(type(child)) not in PLAIN:
            yield step, child


def _all_children(obj: Any, kind: type, most: int | None) -> Iterable[Child]:
    if issubclass(kind, Tensor):
        return _of_tensor(obj)
    if issubclass(kind, nn.Module):
        return itertools.chain(_of_module(obj), _items(obj, kind, most), _slots(obj, kind))
    if issubclass(kind, types.FunctionType):
        return itertools.chain(function_references(obj), _attributes(obj))
    if issubclass(kind, type):
        return _of_class(obj)
    if issubclass(kind, weakref.ref):
        return _of_reference(obj)
    if issubclass(kind, weakref.ProxyTypes):
        # A proxy hands each attribute on; this one is `object`'s in every class, and bound to what it stands for.
        return (("", obj.__sizeof__.__self__),)
    if kind is types.MappingProxyType:
        return (("", inner) for inner in gc.get_referents(obj))
    if issubclass(kind, np.ndarray):
        return _of_array(obj, most)
    if id(kind) in _BUILT_IN and not gc.is_tracked(obj) and _holds_plain_values(obj, kind):
        return ()
    if issubclass(kind, Optimizer):
        return itertools.chain(_of_optimizer(obj), _attributes(obj, "state"))
    return _of_instance(obj, kind, most)


def _holds_plain_values(obj: Any, kind: type) -> bool:
    """Whether an untracked container has numbers and strings only: arrays and streams are not tracked either."""
    values: Iterable[object] = itertools.chain(obj, obj.values()) if kind is dict else obj
    return PLAIN.issuperset(map(id, map(type, values)))


# --- any instance ---------------------------------------------------------------------------------------------


def _of_instance(obj: Any, kind: type, most: int | None) -> Iterator[Child]:
    """Attributes, slots, the items of the built-in container it derives from, and what only C knows of."""
    given: set[int] = set()
    for step, child in itertools.chain(
        _members(obj, kind), _items(obj, kind, most), _attributes(obj), _slots(obj, kind)
    ):
        given.add(id(child))
        yield step, child
    if id(kind) in _BUILT_IN:
        return
    given.add(id(_instance_dict(obj)))
    number = 0
    for child in gc.get_referents(obj):
        if id(child) not in given and id(type(child)) not in PLAIN and not issubclass(type(child), type):
            yield f".<item {number}>", child
            number += 1


def _members(obj: Any, kind: type) -> Iterator[Child]:
    for base, names in _MEMBERS:
        if issubclass(kind, base):
            for name in names:
                try:
                    yield f".{name}", _class_dict(base)[name].__get__(obj)
                except ValueError:  # an empty cell
                    continue


def _items(obj: Any, kind: type, most: int | None) -> Iterator[Child]:
    if issubclass(kind, dict):
        # As one list: another thread may change the dict meanwhile.
        pairs = list(itertools.islice(dict.items(obj), most))
        for k, (key, value) in enumerate(pairs):
            if id(type(value)) not in PLAIN:
                yield f"[{_key_text(key, k)}]", value
        for k, (key, _) in enumerate(pairs):
            if id(type(key)) not in PLAIN:
                yield f".keys()[{k}]", key
    for base, iterate in _ITEMS:
        if issubclass(kind, base):
            names = _field_names(kind) if base is tuple else ()
            for k, item in enumerate(list(itertools.islice(iterate(obj), most))):
                if id(type(item)) not in PLAIN:
                    yield f".{names[k]}" if k < len(names) else f"[{k}]", item
    for base, iterate in _UNORDERED:
        if issubclass(kind, base):
            for k, item in enumerate(list(itertools.islice(iterate(obj), most))):
                yield f".<item {k}>", item


def _field_names(kind: type) -> tuple[str, ...]:
    """The names of a named tuple's items; none for another tuple."""
    for cls in _class_mro(kind):
        names = _class_dict(cls).get("_fields")
        if type(names) is tuple and all(type(name) is str for name in names):
            return names
    return ()


def _instance_dict(obj: object) -> dict[str, Any]:
    """`obj.__dict__`, unless a class made a property of it; empty where there is none."""
    for cls in _class_mro(type(obj)):
        entry = _class_dict(cls).get("__dict__")
        if type(entry) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            attributes = cast(Any, entry).__get__(obj)
            return attributes if issubclass(type(attributes), dict) else {}
    return {}


def _attributes(obj: object, left_out: str = "") -> Iterator[Child]:
    for name, value in list(dict.items(_instance_dict(obj))):
        if id(type(value)) not in PLAIN and not (type(name) is str and name == left_out):
            yield _attribute_step(name), value


def _slots(obj: object, kind: type) -> Iterator[Child]:
    for cls in _class_mro(kind):
        namespace = _class_dict(cls)
        if "__slots__" not in namespace:
            continue
        for name, entry in namespace.items():
            if type(entry) is types.MemberDescriptorType and name not in ("__dict__", "__weakref__"):
                try:
                    yield f".{name}", entry.__get__(obj)
                except AttributeError:  # not set
                    continue


def _attribute_step(name: object) -> str:
    """`.weight`; in brackets where the name is none that Python can write."""
    return f".{name}" if type(name) is str and name.isidentifier() else f".__dict__[{_key_text(name, 0)}]"


def _key_text(key: Any, position: int, depth: int = 0) -> str:
    """A key as Python writes it; its type and place where that would need code of its class."""
    kind = type(key)
    if id(kind) in _KEYS_BY_REPR or issubclass(kind, str):
        text = str.__repr__(key) if issubclass(kind, str) else repr(key)
        return text if len(text) <= _LONGEST_KEY else f"{text[: _LONGEST_KEY - 2]}…{text[-1]}"
    if kind is tuple and depth < 2 and len(key) <= 8:
        inside = ", ".join(_key_text(each, position, depth + 1) for each in key)
        return f"({inside},)" if len(key) == 1 else f"({inside})"
    if issubclass(kind, enum.Enum) and type(name := _instance_dict(key).get("_name_")) is str:
        return f"{type_name(kind)}.{name}"
    if issubclass(kind, type):
        return type_name(key)
    return f"<{type_name(kind)} {position}>"


# --- PyTorch's own ---------------------------------------------------------------------------------------------

_MODULE_TABLES: dict[str, Callable[[nn.Module], Iterator[tuple[str, Any]]]] = {
    "_parameters": lambda module: nn.Module.named_parameters(module, recurse=False),
    "_buffers": lambda module: nn.Module.named_buffers(module, recurse=False),
    "_modules": nn.Module.named_children,
}
_MODULE_LISTS = (nn.Sequential, nn.ModuleList, nn.ParameterList)
_MODULE_DICTS = (nn.ModuleDict, nn.ParameterDict)


def _of_module(module: nn.Module) -> Iterator[Child]:
    """Parameters, buffers and modules by the user's names for them, then all other attributes."""
    attributes = _instance_dict(module)
    kind = type(module)
    for table, named in _MODULE_TABLES.items():
        items = dict.get(attributes, table)
        if issubclass(kind, torch.jit.ScriptModule) and not issubclass(type(items), dict):
            held = list(named(module))  # what TorchScript has
        else:
            held = _items_of_dict(items)
        for name, child in held:
            yield _module_step(kind, name), child
    for name, value in list(dict.items(attributes)):
        value_kind = type(value)
        if id(value_kind) in PLAIN or (type(name) is str and name in _MODULE_TABLES):
            continue
        if (value_kind is dict or value_kind is OrderedDict) and not dict.__len__(value):
            continue  # a module has a dozen tables for hooks, and mostly no hook
        yield _module_step(kind, name), value


def _module_step(kind: type, name: Any) -> str:
    if issubclass(kind, _MODULE_LISTS) and type(name) is str and name.isdigit():
        return f"[{name}]"
    if type(name) is str and name.isidentifier() and not issubclass(kind, _MODULE_DICTS):
        return f".{name}"
    if issubclass(kind, _MODULE_DICTS) and not (type(name) is str and name.startswith("_")):
        return f"[{_key_text(name, 0)}]"
    return f".{name}" if type(name) is str else f".<item {_key_text(name, 0)}>"


def _of_optimizer(optimizer: Optimizer) -> Iterator[Child]:
    """What it keeps of each parameter, by the number that its state_dict gives the parameter."""
    attributes = _instance_dict(optimizer)
    state, groups = dict.get(attributes, "state"), dict.get(attributes, "param_groups")
    numbers: dict[int, int] = {}
    for group in groups if type(groups) is list else ():
        for parameter in group.get("params", ()):
            numbers.setdefault(id(parameter), len(numbers))
    for k, (key, value) in enumerate(_items_of_dict(state)):
        if id(key) in numbers:  # which leads to it through the groups too
            yield f".state[{numbers[id(key)]}]", value
        else:
            yield f".state[{_key_text(key, k)}]", value
            yield f".state.keys()[{k}]", key


def _items_of_dict(value: object) -> list[tuple[Any, Any]]:
    return list(dict.items(cast("dict[Any, Any]", value))) if issubclass(type(value), dict) else []


_TENSOR: Any = Tensor  # its attributes are read with its own descriptors: a subclass may have put others over them


def _of_tensor(t: Tensor) -> Iterator[Child]:
    yield from _attributes(t)
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        yield f".{name}", getattr(_TENSOR, name).__get__(t)
    if _TENSOR.is_leaf.__get__(t):  # PyTorch warns where the gradient of another is read
        yield ".grad", _TENSOR.grad.__get__(t)


# --- functions' and classes' company ----------------------------------------------------------------------------


def module_name(cls: type) -> str:
    """The name of the module that `cls` is from; empty where its `__module__` is no string."""
    name = _class_module(cls)
    return name if type(name) is str else ""


def _of_class(cls: type) -> Iterator[Child]:
    """The class's attributes, and those it has from classes of the program itself."""
    for base in _class_mro(cls):
        if base is cls or not module_in_library(module_name(base)):
            for name, value in list(_class_dict(base).items()):
                if name not in ("__dict__", "__weakref__", "_abc_impl"):
                    yield _attribute_step(name), value


def _of_reference(reference: Any) -> Iterator[Child]:
    yield "()", weakref.ref.__call__(reference)
    yield ".__callback__", cast(Any, vars(weakref.ref)["__callback__"]).__get__(reference)
    yield from _attributes(reference)
    yield from _slots(reference, type(reference))


def _of_array(array: Any, most: int | None) -> Iterator[Child]:
    """The items of an array of objects; an array of numbers holds nothing to follow."""
    yield from _attributes(array)
    dtype = np.ndarray.dtype.__get__(array)
    if dtype.hasobject and dtype.names:
        for name in dtype.names:
            field = np.ndarray.__getitem__(np.ndarray.view(array, np.ndarray), name)
            for step, item in _of_array(field, most):
                yield f"[{name!r}]{step}", item
    elif dtype.hasobject:
        shape = np.ndarray.shape.__get__(array)
        items = itertools.islice(np.ndarray.flat.__get__(array), most)
        for index, item in zip(np.ndindex(*shape), items, strict=False):
            yield f"[{', '.join(map(str, index)) or '()'}]", item
