"""The ways through objects: which object is reached from another, and how Python would write the way."""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Callable, Collection, Container, Hashable, Iterator

from ... import _torch_private
from .function_references import GLOBAL_STEP
from .object_children import PLAIN, Child, children

__all__ = ["Child", "ObjectWalk", "children", "find_path", "find_paths", "held_objects", "is_function_like"]

_FUNCTION_LIKE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    weakref.ref,
    *weakref.ProxyTypes,
    property,
    staticmethod,
    classmethod,
    functools._lru_cache_wrapper,
)


def is_function_like(obj: object) -> bool:
    """Whether `obj` refers to others without having them as its contents.

    True of functions, built-in functions and methods, properties and weak references: what `copy.deepcopy` keeps
    by reference (classes aside). A bound method is not: a copy of it is bound to a copy of its object.
    """
    return issubclass(type(obj), _FUNCTION_LIKE)


class ObjectWalk:
    """A walk from `root` to all that it holds, nearest first; each object is met once.

    Iterating finds one object after the other and gives its number; the root is number 0. The walk keeps what it
    has met alive.

    Args:
        root: where the walk begins.
        enter: asked before the contents of an object are looked at, with the object and whether a global variable
            is on the way to it.
        limit: the walk ends when it has met so many objects; None for all.
        most_items: how many items of one container are looked at; None for all.
        passed_over: ids of objects that it neither meets nor enters.
    """

    def __init__(
        self,
        root: object,
        *,
        enter: Callable[[object, bool], bool],
        limit: int | None = None,
        most_items: int | None = None,
        passed_over: Container[int] = (),
    ) -> None:
        self.objects: list[object] = [root]
        self.steps: list[str] = [""]
        self.holders: list[int] = [-1]
        self.by_global: list[bool] = [False]
        self._enter = enter
        self._limit = sys.maxsize if limit is None else limit
        self._most_items = most_items
        self._passed_over = passed_over
        self.entered = 0
        """How many of the objects, in the order they were met, have been looked into."""
        self.complete = False
        """Whether the walk came to its end."""

    def __iter__(self) -> Iterator[int]:
        objects, by_global = self.objects, self.by_global
        met = {id(objects[0])}
        yield 0
        while self.entered < len(objects):
            position = self.entered
            holder, is_by_global = objects[position], by_global[position]
            if self._enter(holder, is_by_global):
                for step, child in _safely(holder, self._most_items):
                    if id(child) in met or id(child) in self._passed_over:
                        continue
                    met.add(id(child))
                    objects.append(child)
                    self.steps.append(step)
                    self.holders.append(position)
                    by_global.append(is_by_global or step.startswith(GLOBAL_STEP))
                    yield len(objects) - 1
                    if len(objects) >= self._limit:
                        return
            self.entered += 1
        self.complete = True

    def way(self, number: int) -> list[int]:
        """The numbers of the objects on the way to object `number`, the root first and itself last."""
        way = [number]
        while (holder := self.holders[way[-1]]) >= 0:
            way.append(holder)
        return way[::-1]

    def path(self, number: int) -> str:
        """The steps from the root to object `number`, as Python writes them."""
        return "".join(self.steps[k] for k in self.way(number))


def _safely(holder: object, most_items: int | None) -> Iterator[Child]:
    """The children of `holder`; those found so far, where the object is too broken to tell all."""
    try:
        yield from children(holder, most_items=most_items)
    except Exception:  # noqa: BLE001  # a half-made object may fail in any way; it is not what the caller asked about
        return


def find_paths(
    root: object,
    wanted: Collection[Hashable],
    *,
    key: Callable[[object], Hashable | None] = id,
    name: str = "source",
    through_functions: bool = False,
) -> dict[Hashable, str]:
    """The shortest path from `root` to the first object with each of the wanted keys.

    Args:
        root: where all paths begin.
        wanted: keys of the objects that are looked for.
        key: gives an object's key; by default its `id`.
        name: what the paths call `root`.
        through_functions: see `find_path`.

    Returns:
        Path by key; a key without an entry was not found.
    """
    missing, found = set(wanted), dict[Hashable, str]()
    walk = ObjectWalk(root, enter=lambda obj, _: through_functions or not _ends_data(obj))
    with _torch_private.outside_modes():
        for number in walk if missing else ():
            its_key = key(walk.objects[number])
            if its_key in missing:
                missing.discard(its_key)
                found[its_key] = name + walk.path(number)
                if not missing:
                    break
    return found


def _ends_data(obj: object) -> bool:
    return issubclass(type(obj), type) or is_function_like(obj)


def find_path(root: object, target: object, *, name: str = "source", through_functions: bool) -> str | None:
    """The shortest path from `root` to `target` itself, such as `source.trainer.lock`.

    Reads only: nothing is copied or written, no code of the objects' classes runs, and no device is waited for.

    Args:
        root: where the path begins.
        target: what it leads to, looked for by identity.
        name: what the path calls `root`.
        through_functions: whether to look through functions, classes and weak references too. A deep copy does
            not: it keeps them by reference.

    Returns:
        The path, or None where `target` was not found, and where it is a value that holds nothing (a number, a
        string): such a value is not anywhere in particular.
    """
    if id(type(target)) in PLAIN and root is not target:
        return None
    found = find_paths(root, (id(target),), name=name, through_functions=through_functions)
    return found.get(id(target))


def held_objects(
    root: object, *, passing: tuple[type, ...] = (), closed: Callable[[type], bool] = lambda _: False
) -> list[object]:
    """What a deep copy of `root` copies, `root` first, each object once.

    Instances of the `passing` classes are left out, and what is reached through them only; of the `closed` ones
    only what they hold is.
    """

    def enters(obj: object, _: bool) -> bool:
        return not (_ends_data(obj) or issubclass(type(obj), passing) or closed(type(obj)))

    walk = ObjectWalk(root, enter=enters)
    with _torch_private.outside_modes():
        return [walk.objects[number] for number in walk if not issubclass(type(walk.objects[number]), passing)]
