"""What an object consists of, written down to compare a source with its copy: kinds, values, identities.

It shares no code with torchcopy, on purpose.
"""

import collections
import copyreg
import enum
import functools
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import parametrize

_VALUES = (
    *(type(None), bool, int, float, complex, str, bytes, range, type(...), type(NotImplemented), enum.Enum),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size, types.CodeType),
)
_BY_REFERENCE = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    property,
    torch._ops.OpOverload,
)
_CANNOT_CHANGE = (*_VALUES, *_BY_REFERENCE, tuple, frozenset, weakref.ref, types.MappingProxyType)


class Structure:
    """Every object that `root` is made of, in the order in which they are met.

    Attributes:
        lines: `(path, what is there)`; equal for a source and its copy. An object met again is named by the number
            it got the first time, and a tensor by the number of its storage too.
        objects: by path, every object that a program could change.
        tensors: by path, every tensor; each once.
    """

    def __init__(self, root: Any) -> None:
        self.lines: list[tuple[str, Any]] = []
        self.objects: dict[str, Any] = {}
        self.tensors: dict[str, Tensor] = {}
        self._numbers: dict[int, int] = {}
        self._storages: dict[int, int] = {}
        todo = collections.deque([("", root)])
        while todo:
            path, obj = todo.popleft()
            todo.extend(self._note(path, obj))

    def _note(self, path: str, obj: Any) -> list[tuple[str, Any]]:
        if isinstance(obj, _VALUES):
            self.lines.append((path, (type(obj), repr(obj))))
            return []
        if isinstance(obj, _BY_REFERENCE):
            self.lines.append((path, obj))
            return []
        known = self._numbers.get(id(obj))
        if known is not None:
            self.lines.append((path, f"object {known} again"))
            return []
        self._numbers[id(obj)] = len(self._numbers)
        if not isinstance(obj, _CANNOT_CHANGE):
            self.objects[path] = obj
        self.lines.append((path, (_kind(obj), self._facts(obj))))
        if isinstance(obj, Tensor):
            self.tensors[path] = obj
        return [(path + step, child) for step, child in _children(obj)]

    def _facts(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            if torch.nn.parameter.is_lazy(obj):
                return obj.dtype, obj.requires_grad
            if obj.layout is torch.sparse_coo:
                return obj.dtype, obj.shape, obj.is_coalesced()
            number = self._storages.setdefault(obj.untyped_storage()._cdata, len(self._storages))
            return (
                obj.dtype,
                obj.shape,
                obj.stride(),
                obj.requires_grad and obj.is_leaf,  # what is in a graph is copied out of it
                obj.device,
                f"storage {number}",
            )
        if isinstance(obj, np.ndarray):
            return obj.dtype.str, obj.shape, obj.tobytes()
        if isinstance(obj, (list, tuple, dict, set, frozenset, collections.deque)):
            return len(obj)
        return None


def _kind(obj: Any) -> Any:
    """The class; of a parametrized module what its class is made of, for each of these has one of its own."""
    if isinstance(obj, torch.nn.Module) and parametrize.is_parametrized(obj):
        return type(obj).__bases__, sorted(vars(type(obj)))
    return type(obj)


def _children(obj: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(obj, torch.nn.modules.module._WrappedHook):  # pickles and copies just these
        yield from (
            (".hook", obj.hook),
            (".with_module", obj.with_module),
            (".module", getattr(obj, "module", None)),
        )
        return
    if isinstance(obj, dict):
        for k, (key, value) in enumerate(obj.items()):
            if isinstance(key, _VALUES):
                yield f"[{key!r}]", value
            else:
                yield f".keys()[{k}]", key
                yield f".values()[{k}]", value
    elif isinstance(obj, (list, tuple, collections.deque)):
        yield from ((f"[{k}]", item) for k, item in enumerate(obj))
    elif isinstance(obj, (set, frozenset)) and all(isinstance(item, _VALUES) for item in obj):
        yield from ((f"<{k}>", item) for k, item in enumerate(sorted(obj, key=repr)))
    elif isinstance(obj, types.MethodType):
        yield from ((".__func__", obj.__func__), (".__self__", obj.__self__))
    elif isinstance(obj, functools.partial):
        yield from ((".func", obj.func), (".args", obj.args), (".keywords", obj.keywords))
    elif isinstance(obj, weakref.ref):
        yield "()", obj()
    elif isinstance(obj, Tensor) and obj.layout is torch.sparse_coo:
        yield from (("._indices()", obj._indices()), ("._values()", obj._values()))
    if isinstance(obj, Tensor) and obj._backward_hooks:
        yield "._backward_hooks", obj._backward_hooks
    for name, value in getattr(obj, "__dict__", {}).items():
        if not hasattr(value, "_wrapped_by_lr_sched"):  # a scheduler's own wrapper around one optimizer's `step`
            yield f".{name}", value
    for name in copyreg._slotnames(type(obj)):
        if hasattr(obj, name):
            yield f".{name}", getattr(obj, name)


def assert_same_structure(source: Any, copied: Any) -> None:
    """The copy has the same classes, attributes and values, and the same object wherever the source has one."""
    ours, theirs = Structure(source), Structure(copied)
    for mine, other in zip(ours.lines, theirs.lines, strict=False):
        assert mine == other, f"source has {mine}, copy has {other}"
    assert len(ours.lines) == len(theirs.lines)
    for path, t in ours.tensors.items():
        if _has_storage(t):
            assert torch.equal(_bytes_of(t), _bytes_of(theirs.tensors[path])), path


def assert_nothing_shared(source: Any, copied: Any, *, besides: tuple[type, ...] = ()) -> None:
    """No object that could be changed is in both, and no storage."""
    ours, theirs = Structure(source), Structure(copied)
    in_source = {id(obj) for obj in ours.objects.values()}
    both = [path for path, obj in theirs.objects.items() if id(obj) in in_source and not isinstance(obj, besides)]
    assert both == []
    assert set(_storages(ours)).isdisjoint(_storages(theirs))


def assert_writes_stay_apart(source: Any, copied: Any) -> None:
    """Every byte of the source is changed, and the copy looked at; then the other way round. All are put back."""
    ours, theirs = Structure(source), Structure(copied)
    for written, other in ((ours, theirs), (theirs, ours)):
        before, expected = _contents(written), _contents(other)
        _flip_all(written)
        assert not any(
            was.numel() and torch.equal(was, now) for was, now in zip(before, _contents(written), strict=True)
        )
        assert _same(_contents(other), expected)
        _flip_all(written)
        assert _same(_contents(written), before)


def _storages(structure: Structure) -> dict[int, torch.UntypedStorage]:
    return {t.untyped_storage()._cdata: t.untyped_storage() for t in structure.tensors.values() if _has_storage(t)}


def _has_storage(t: Tensor) -> bool:
    return not torch.nn.parameter.is_lazy(t) and t.layout is torch.strided


def _flip_all(structure: Structure) -> None:
    for storage in _storages(structure).values():
        _as_bytes(storage).bitwise_not_()


def _contents(structure: Structure) -> list[Tensor]:
    """Read without a pointer that could be written through: that would end the laziness of a fork."""
    return [_as_bytes(storage).clone() for storage in _storages(structure).values()]


def _same(ours: list[Tensor], theirs: list[Tensor]) -> bool:
    return len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))


def _as_bytes(storage: torch.UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def _bytes_of(t: Tensor) -> Tensor:
    """The values of `t`, NaN and signs of zero and all."""
    plain = t.detach().as_subclass(Tensor)
    return plain.contiguous().flatten().view(torch.uint8) if plain.numel() else torch.empty(0, dtype=torch.uint8)


def tensors_in(outputs: Any) -> list[Tensor]:
    """Every tensor in what a model returned."""
    return list(Structure(outputs).tensors.values())


def assert_same_values(ours: Any, theirs: Any) -> None:
    """Bit by bit the same tensors in two outputs, and at least one of them."""
    mine, others = tensors_in(ours), tensors_in(theirs)
    assert len(mine) == len(others) > 0
    for a, b in zip(mine, others, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        assert torch.equal(_bytes_of(a), _bytes_of(b))
