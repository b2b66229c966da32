"""The search from what a copy keeps by reference to the tensors of its source."""

from __future__ import annotations

import functools
import itertools
import types
import weakref
from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ... import _torch_private
from ..objects.function_references import GLOBAL_STEP, module_in_library
from ..objects.object_children import children, module_name
from ..objects.object_paths import ObjectWalk, is_function_like

# Objects met in the search from one object that was kept. What a closure holds is near to it.
_MOST_OBJECTS = 20_000
# The same for all kept objects of a call.
_MOST_SEARCHED = 100_000
# Items of one container; a longer one is a data set, and not what anything is registered in.
_MOST_ITEMS = 100_000
# Objects, among the first, behind a global variable or a class attribute: there begins the rest of the program.
_MOST_BY_GLOBAL = 2_000
# Objects met only to count how many more tensors an escape leads to, in one call.
_MOST_COUNTED = 50_000

# Behind these lies the machinery of PyTorch, Python or a test run, and no tensor that a program keeps there.
_MACHINERY: Final = ("torch._", "torch.fx.", "torch.jit.", "logging", "importlib", "_frozen_importlib", "_pytest.")
_CONTAINERS: Final = (dict, list, tuple, set, frozenset, deque, types.SimpleNamespace)
_ALWAYS_ENTERED: Final = (Tensor, nn.Module, Optimizer, functools.partial, types.MethodType, *_CONTAINERS)


class _Bounds:
    """What one walk enters, and whether it had to leave something out."""

    def __init__(
        self, root: object, *, is_narrow: bool, others: Collection[int], shared_types: tuple[type, ...]
    ) -> None:
        self._root = root
        self.is_narrow = is_narrow
        self._shared_types = shared_types
        self._others = others
        self._left_by_global = _MOST_BY_GLOBAL
        self.refused: set[int] = set()
        self.passed_others = False
        self.cut_short = False

    def enter(self, obj: object, is_by_global: bool) -> bool:
        """Whether to look into `obj`."""
        if obj is self._root or self._is_entered(obj, is_by_global or self.is_narrow):
            return True
        self.refused.add(id(obj))
        return False

    def _is_entered(self, obj: object, is_narrow: bool) -> bool:
        kind = type(obj)
        if id(obj) in self._others:
            self.passed_others = True
            return False
        if issubclass(kind, (type, *self._shared_types)):
            return False
        if is_narrow:
            self._left_by_global -= 1
            if self._left_by_global < 0:
                self.cut_short = True
                return False
        if issubclass(kind, _ALWAYS_ENTERED) or is_function_like(obj):
            return True
        module = module_name(kind)
        return not (module_in_library(module) if is_narrow else module.startswith(_MACHINERY))


@dataclass(frozen=True, slots=True)
class Finding:
    """A tensor of the source, and the steps that lead to it from some object."""

    start: object
    steps: str
    through: str
    tensor: Tensor
    more_tensors: int | None


class EscapeSearch:
    """One call's search: what it knows of the source's tensors, of ways to them, and of what leads nowhere."""

    def __init__(
        self,
        kept: Sequence[object],
        source_tensors: Iterable[Tensor],
        shared: Collection[int],
        shared_types: tuple[type, ...],
    ) -> None:
        self._kept = frozenset(map(id, kept))
        self._source_tensors = source_tensors
        self._source_memory: set[Hashable] | None = None  # found out when the first tensor is met
        self._known: dict[int, Finding] = {}  # by id of what functions refer to: hooks often share a model
        self._shared_types = shared_types
        self._passed_over = set(shared)
        self._in_vain: list[object] = []  # alive, so that nothing else gets an id that is passed over
        self._left = _MOST_SEARCHED
        self._left_to_count = _MOST_COUNTED

    def from_object(self, root: object) -> Finding | None:
        """The nearest of the source's tensors behind `root`, and how many more there are."""
        is_function = is_function_like(root)
        # Other kept objects in it are searched, and reported, for themselves. Those of a function are searched with
        # it: whoever replaces them in the copy has not replaced them in the function.
        walk, bounds = self._walk(
            root, issubclass(type(root), type), () if is_function else self._kept, min(_MOST_OBJECTS, self._left)
        )
        try:
            for number in walk:
                obj = walk.objects[number]
                if number and is_function and (known := self._known.get(id(obj))) is not None:
                    steps = walk.path(number) + known.steps
                    return Finding(root, steps, _through(walk, number), known.tensor, known.more_tensors)
                if self._is_of_source(obj):
                    return self._finding(walk, number, is_function)
        finally:
            self._left -= len(walk.objects)
        self._pass_over(walk, bounds)
        return None

    def _finding(self, walk: ObjectWalk, number: int, is_function: bool) -> Finding:
        way = walk.way(number)
        tensor = cast(Tensor, walk.objects[number])
        first = way[1] if is_function and len(way) > 1 else way[0]
        held = walk.objects[first]
        more = self._count_more(held, walk.by_global[first] or issubclass(type(held), type))
        if first:
            rest = "".join(walk.steps[k] for k in way[2:])
            self._known[id(held)] = Finding(held, rest, "", tensor, more)
        return Finding(walk.objects[0], walk.path(number), _through(walk, number), tensor, more)

    def _count_more(self, start: object, is_narrow: bool) -> int | None:
        """How many of the source's tensors are behind `start`, but one; None where they are too many to count."""
        walk, bounds = self._walk(start, is_narrow, (), self._left_to_count)
        reached = {memory_of(cast(Tensor, walk.objects[k])) for k in walk if self._is_of_source(walk.objects[k])}
        self._left_to_count -= len(walk.objects)
        return len(reached) - 1 if walk.complete and not bounds.cut_short else None

    def _walk(
        self, root: object, is_narrow: bool, others: Collection[int], limit: int
    ) -> tuple[ObjectWalk, _Bounds]:
        bounds = _Bounds(root, is_narrow=is_narrow, others=others, shared_types=self._shared_types)
        walk = ObjectWalk(
            root, enter=bounds.enter, limit=limit, most_items=_MOST_ITEMS, passed_over=self._passed_over
        )
        return walk, bounds

    def _is_of_source(self, obj: object) -> bool:
        if not issubclass(type(obj), Tensor):
            return False
        if self._source_memory is None:
            self._source_memory = {memory for t in self._source_tensors for memory in _all_memory(t)}
        return memory_of(cast(Tensor, obj)) in self._source_memory

    def _pass_over(self, walk: ObjectWalk, bounds: _Bounds) -> None:
        """Remembers what `walk` has looked into, for the next one. Less is looked into behind a global variable."""
        if bounds.is_narrow or bounds.passed_others:
            return
        for number in range(1, min(walk.entered + 1, len(walk.objects))):
            obj = walk.objects[number]
            if not (walk.by_global[number] or id(obj) in bounds.refused):
                self._in_vain.append(obj)
                self._passed_over.add(id(obj))


def memory_of(t: Tensor) -> Hashable:
    """What two tensors have in common exactly when they use one storage; a tensor without one stands for itself."""
    try:
        return "storage", _torch_private.storage_id(t)
    except RuntimeError:
        return "tensor", id(t)


def _all_memory(t: Tensor) -> Iterator[Hashable]:
    """The same for `t` and, where it wraps others, for those too."""
    yield memory_of(t)
    wraps: bool = is_traceable_wrapper_subclass(t)
    if wraps:
        for _, inner in children(t):
            if issubclass(type(inner), Tensor):
                yield memory_of(cast(Tensor, inner))


def _through(walk: ObjectWalk, number: int) -> str:
    """What kind of reference the way to object `number` takes first."""
    way = walk.way(number)
    for holder, held in itertools.pairwise(way):
        obj = walk.objects[holder]
        if issubclass(type(obj), types.FunctionType):
            step = walk.steps[held]
            return next((name for start, name in _OF_FUNCTION if step.startswith(start)), "function attribute")
        for kinds, name in _OF_KIND:
            if issubclass(type(obj), kinds):
                return name
    return "class attribute" if issubclass(type(walk.objects[0]), type) else "custom `__deepcopy__`"


_OF_FUNCTION: Final = (
    (".__closure__[", "closure"),
    (".__defaults__[", "default argument"),
    (".__kwdefaults__[", "default argument"),
    (GLOBAL_STEP, "global variable"),
)
_OF_KIND: Final[tuple[tuple[Any, str], ...]] = (
    ((weakref.ref, *weakref.ProxyTypes), "weak reference"),
    ((types.BuiltinFunctionType, types.MethodWrapperType), "bound method"),
    (property, "property"),
    (functools._lru_cache_wrapper, "cached function"),
)
