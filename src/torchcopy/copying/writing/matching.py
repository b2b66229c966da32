"""Pairs what is written to with what it is written from, and lists where the structures of the two differ.

Both are walked in step. Where a module, dict or list holds nothing but tensors, all of them are taken at once;
paths are kept as links and spelled out only for an error.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..._errors import InputError
from .difference_wording import Path, described, path_text, same_place
from .named_parts import named_tensors, optimizer_parts, running_module, tensors_of_state_dict, wrapper_prefix
from .new_values import NewValue, Place, is_plain, same_value

ACCEPTED = "a tensor, a NumPy array, or an `nn.Module`, optimizer, dict, list, tuple or dataclass that holds some"

_ORDINARY = frozenset({Tensor, nn.Parameter})
_PLAIN_DICTS = (dict, OrderedDict)
# What a parameter group says about its parameters, not about the steps taken.
_ABOUT_PARAMETERS = frozenset({"params", "param_names"})
_KINDS: tuple[tuple[str, Any], ...] = (
    ("tensor", (Tensor, np.ndarray)),
    ("module", nn.Module),
    ("optimizer", Optimizer),
    ("mapping", Mapping),
    ("sequence", (list, tuple, deque)),
)

_SEQUENCES = ("sequence", "sequence")

_Item: TypeAlias = tuple[Any, Any, Path, Path, Place | None]
"""Two things to be matched, where each is, and where the first could be replaced."""
_Under: TypeAlias = tuple[Path, str]
"""Where a table of names is, and how its names are written behind that: `.` or `[]`."""


def _kind_of_class(cls: type) -> str:
    for kind, classes in _KINDS:
        if issubclass(cls, classes):
            return kind
    return "dataclass" if dataclasses.is_dataclass(cls) else "value"


_kind: Callable[[Any], str] = functools.lru_cache(maxsize=1024)(_kind_of_class)


class Matching:
    """The tensors of `dst` beside those of `src`, the values to assign, and the differences in structure.

    Attributes:
        dsts: tensors and arrays to write to.
        srcs: the same, to read; `srcs[k]` belongs to `dsts[k]`.
        ordinary: whether all of them are of the types `Tensor` and `Parameter` themselves.
        only_modules: whether all of them are parameters and buffers of two modules.
        differences: a line each.
    """

    def __init__(self, dst: object, src: object, *, assign: bool) -> None:
        """Walks both. Where `assign` is False, values that are no tensors are passed over.

        Raises:
            InputError: `dst` or `src` is nothing that can be walked. Other differences are only listed.
        """
        self.dsts: list[Any] = []
        self.srcs: list[Any] = []
        self.ordinary = True
        self.only_modules = isinstance(dst, nn.Module) and isinstance(src, nn.Module)
        self.differences: list[str] = []
        self._assign = assign
        self._new_values: dict[tuple[int, Any], NewValue] = {}
        self._starts: list[int] = []
        self._runs: list[tuple[Path, Path, str, str, Iterable[Any]]] = []
        self._met: dict[tuple[int, int], tuple[object, object]] = {}
        self._todo: list[_Item] = [(dst, src, (None, "", "dst"), (None, "", "src"), None)]
        _refuse_other_roots(dst, src)
        self._walk()

    @property
    def new_values(self) -> tuple[NewValue, ...]:
        """What is to be assigned: values that are no tensors, and differ."""
        return tuple(self._new_values.values())

    def paths(self, position: int) -> tuple[Path, Path]:
        """Where the pair at `position` is in `dst` and in `src`."""
        run = bisect.bisect_right(self._starts, position) - 1
        at_d, at_s, style_d, style_s, keys = self._runs[run]
        if not style_d:
            return at_d, at_s
        key = list(keys)[position - self._starts[run]]
        return (at_d, style_d, key), (at_s, style_s, key)

    def differs(self, at_d: Path, at_s: Path, expected: str, found: str, advice: str = "") -> None:
        """Notes that what is at `at_d` cannot take what is at `at_s`."""
        elsewhere = "" if same_place(at_d, at_s) else f" at {path_text(at_s)}"
        advice = advice and f": {advice}"
        difference = f"expected {expected}, found {found}{elsewhere}"
        if expected == found:  # the advice says what it is about one of them
            difference = f"{found}{elsewhere}"
        self.differences.append(f"{path_text(at_d)}: {difference}{advice}")

    # --- the walk ------------------------------------------------------------------------------------------

    def _walk(self) -> None:
        todo, met = self._todo, self._met
        while todo:
            d, s, at_d, at_s, place = todo.pop()
            kinds = _kind(type(d)), _kind(type(s))
            if kinds == ("tensor", "tensor"):
                self._pair(d, s, at_d, at_s)
                continue
            handler = _HANDLERS.get(kinds)
            if handler is None or (kinds == _SEQUENCES and is_plain(d) and is_plain(s)):
                self._value(d, s, at_d, at_s, place)
            elif (id(d), id(s)) not in met:  # what holds itself, or is held twice, is entered once
                met[id(d), id(s)] = (d, s)  # kept alive, so that their ids stay theirs
                handler(self, d, s, at_d, at_s)

    def _later(self, children: list[_Item]) -> None:
        self._todo.extend(reversed(children))  # the last in is the next out

    def _pair(self, d: Any, s: Any, at_d: Path, at_s: Path) -> None:
        self._starts.append(len(self.dsts))
        self._runs.append((at_d, at_s, "", "", ()))
        self.dsts.append(d)
        self.srcs.append(s)
        self.ordinary = self.ordinary and type(d) in _ORDINARY and type(s) in _ORDINARY

    def _run(
        self, ds: list[Any], ss: list[Any], at: tuple[Path, Path], styles: tuple[str, str], keys: Iterable[Any]
    ) -> bool:
        """Takes all pairs at once, and says whether it could: where every one is of ordinary tensors."""
        if not (_ORDINARY.issuperset(map(type, ds)) and _ORDINARY.issuperset(map(type, ss))):
            return False
        if ds:
            self._starts.append(len(self.dsts))
            self._runs.append((*at, *styles, keys))
            self.dsts.extend(ds)
            self.srcs.extend(ss)
        return True

    def _missing(self, at_d: Path, at_s: Path, expected: object) -> None:
        if self._assign or _kind(type(expected)) != "value":
            self.differs(at_d, at_s, described(expected), "nothing", f"there is no {path_text(at_s)}")

    def _surplus(self, at_d: Path, at_s: Path, found: object) -> None:
        if self._assign or _kind(type(found)) != "value":
            self.differences.append(
                f"{path_text(at_s)}: expected nothing, found {described(found)}: there is no {path_text(at_d)}"
            )

    # --- modules -------------------------------------------------------------------------------------------

    def _modules(self, d: Any, s: Any, at_d: Path, at_s: Path) -> None:
        todo, met = [(d, s, at_d, at_s)], self._met
        while todo:
            d, s, at_d, at_s = todo.pop()
            children = self._own_tensors(d, s, at_d, at_s)
            if children is None:  # one has tensors under names that the other lacks
                self._by_name(named_tensors(d)[0], named_tensors(s)[0], (at_d, "."), (at_s, "."))
                continue
            for name, d, s in reversed(children):
                if (id(d), id(s)) not in met:
                    met[id(d), id(s)] = (d, s)
                    todo.append((d, s, (at_d, ".", name), (at_s, ".", name)))

    def _own_tensors(self, d: Any, s: Any, at_d: Path, at_s: Path) -> list[tuple[str, Any, Any]] | None:
        """Takes what two modules hold themselves and gives their children; None where the names differ."""
        if d is None or s is None:
            return [] if d is s else None
        d, s = running_module(d), running_module(s)
        parameters = _beside(d._parameters, s._parameters)
        buffers = _beside(d._buffers, s._buffers)
        children = _beside(d._modules, s._modules)
        if parameters is None or buffers is None or children is None:
            return None
        for table, (ds, ss) in ((d._parameters, parameters), (d._buffers, buffers)):
            if ds and not self._run(ds, ss, (at_d, at_s), (".", "."), table.keys()):
                rows = zip(table.keys(), ds, ss, strict=True)
                there = [
                    row for row in rows if row[1] is not None or row[2] is not None
                ]  # not so with `bias=False`
                names, ds, ss = ([row[k] for row in there] for k in range(3))
                self._several(names, ds, ss, (at_d, "."), (at_s, "."))
        return list(zip(d._modules.keys(), *children, strict=True)) if children[0] else []

    def _module_and_state_dict(self, d: Any, s: Any, at_d: Path, at_s: Path) -> None:
        module, state = (d, s) if isinstance(d, nn.Module) else (s, d)
        named, left_out = named_tensors(module)
        given = tensors_of_state_dict(state)
        named = {name: t for name, t in named.items() if name in given or name not in left_out}
        if module is d:
            self._by_name(named, given, (at_d, "."), (at_s, "[]"))
        else:
            self._by_name(given, named, (at_d, "[]"), (at_s, "."))

    def _by_name(self, ds: Mapping[Any, Any], ss: Mapping[Any, Any], under_d: _Under, under_s: _Under) -> None:
        """Pairs two tables of names."""
        (at_d, style_d), (at_s, style_s) = under_d, under_s
        if self._wrapped(ds, ss, under_d, under_s) or self._wrapped(ss, ds, under_s, under_d):
            return
        both = [name for name in ds if name in ss]
        self._several(both, [ds[name] for name in both], [ss[name] for name in both], under_d, under_s)
        for name in ds:
            if name not in ss:
                self._missing((at_d, style_d, name), (at_s, style_s, name), ds[name])
        for name in ss:
            if name not in ds:
                self._surplus((at_d, style_d, name), (at_s, style_s, name), ss[name])

    def _several(self, names: list[Any], ds: list[Any], ss: list[Any], under_d: _Under, under_s: _Under) -> None:
        (at_d, style_d), (at_s, style_s) = under_d, under_s
        if not self._run(ds, ss, (at_d, at_s), (style_d, style_s), names):
            self._later(
                [
                    (one, other, (at_d, style_d, name), (at_s, style_s, name), None)
                    for name, one, other in zip(names, ds, ss, strict=True)
                ]
            )

    def _wrapped(self, inner: Mapping[Any, Any], outer: Mapping[Any, Any], at_i: _Under, at_o: _Under) -> bool:
        """Whether `outer` has all names of `inner` behind one prefix, as DDP puts it there: told in one line."""
        prefix = "" if inner.keys() & outer.keys() else wrapper_prefix(inner, outer)
        if prefix:
            one, other = path_text(at_i[0]), path_text(at_o[0])
            unwrap = f"give `{other}.{prefix[:-1]}`" if at_o[1] == "." else "take the prefix off"
            self.differences.append(f"{other}: its names begin with {prefix!r}, those of {one} do not: {unwrap}")
        return bool(prefix)

    # --- other containers ----------------------------------------------------------------------------------

    def _mappings(self, d: Any, s: Any, at_d: Path, at_s: Path, without: frozenset[str] = frozenset()) -> None:
        if type(d) in _PLAIN_DICTS and type(s) in _PLAIN_DICTS and not without:
            both = _beside(d, s)
            if both is not None and self._run(*both, (at_d, at_s), ("[]", "[]"), d):
                return
        changeable = isinstance(d, MutableMapping)
        children: list[_Item] = []
        keys_d, keys_s = d.keys(), s.keys()  # of its own a TensorDict iterates over its rows
        for key in keys_d:
            paths: tuple[Path, Path] = (at_d, "[]", key), (at_s, "[]", key)
            if key in without:
                continue
            if key in keys_s:
                children.append((d[key], s[key], *paths, (d, "[]", key) if changeable else None))
            else:
                self._missing(*paths, d[key])
        for key in keys_s:
            if key not in keys_d and key not in without:
                self._surplus((at_d, "[]", key), (at_s, "[]", key), s[key])
        self._later(children)

    def _sequences(self, d: Any, s: Any, at_d: Path, at_s: Path) -> None:
        if len(d) != len(s):
            self.differs(at_d, at_s, described(d), described(s), "both have to be of one length")
            return
        fields = getattr(d, "_fields", None)  # of a namedtuple
        style, keys = (".", fields) if isinstance(fields, tuple) else ("[]", range(len(d)))
        if not self._run(list(d), list(s), (at_d, at_s), (style, style), keys):
            changeable = not isinstance(d, tuple)
            self._later(
                [
                    (one, other, (at_d, style, key), (at_s, style, key), (d, style, key) if changeable else None)
                    for key, one, other in zip(keys, d, s, strict=True)
                ]
            )

    def _dataclasses(self, d: Any, s: Any, at_d: Path, at_s: Path) -> None:
        ds, ss = _fields(d), _fields(s)
        changeable = not d.__dataclass_params__.frozen
        children: list[_Item] = []
        for name in ds:
            paths: tuple[Path, Path] = (at_d, ".", name), (at_s, ".", name)
            if name in ss:
                children.append((ds[name], ss[name], *paths, (d, ".", name) if changeable else None))
            else:
                self._missing(*paths, ds[name])
        for name in ss:
            if name not in ds:
                self._surplus((at_d, ".", name), (at_s, ".", name), ss[name])
        self._later(children)

    def _optimizers(self, d: Any, s: Any, at_d: Path, at_s: Path) -> None:
        of_d, of_s = optimizer_parts(d), optimizer_parts(s)
        if of_d is None or of_s is None:
            self.differs(at_d, at_s, described(d), described(s), "a dict for an optimizer is its `state_dict()`")
            return
        groups: tuple[Path, Path] = (at_d, of_d.style, "param_groups"), (at_s, of_s.style, "param_groups")
        sizes_d, sizes_s = ([len(group["params"]) for group in each.groups] for each in (of_d, of_s))
        if sizes_d != sizes_s:
            expected, found = (f"{sum(sizes)} parameters in groups of {sizes}" for sizes in (sizes_d, sizes_s))
            self.differs(*groups, expected, found, "state goes by a parameter's number")
            return
        for k, (one, other) in enumerate(zip(of_d.groups, of_s.groups, strict=True)):
            self._mappings(one, other, (groups[0], "[]", k), (groups[1], "[]", k), _ABOUT_PARAMETERS)
        states: tuple[Path, Path] = (at_d, of_d.style, "state"), (at_s, of_s.style, "state")
        if bool(of_d.state) != bool(of_s.state):
            expected, found = (f"state of {len(each.state)} parameters" for each in (of_d, of_s))
            advice = "let both optimizers take a step first, or use `load_state_dict`"
            self.differs(*states, expected, found, advice)
            return
        children: list[_Item] = []
        for key, value in of_d.state.items():
            paths: tuple[Path, Path] = (states[0], "[]", key), (states[1], "[]", key)
            if key in of_s.state:
                children.append((value, of_s.state[key], *paths, (of_d.holder, "[]", of_d.keys[key])))
            else:
                self._missing(*paths, value)
        for key in of_s.state:
            if key not in of_d.state:
                self._surplus((states[0], "[]", key), (states[1], "[]", key), of_s.state[key])
        self._later(children)

    # --- what is no container ------------------------------------------------------------------------------

    def _value(self, d: Any, s: Any, at_d: Path, at_s: Path, place: Place | None) -> None:
        if not (is_plain(d) and is_plain(s)) and (_kind(type(d)), _kind(type(s))) != ("value", "value"):
            self._values_differ(d, s, at_d, at_s)
        elif not self._assign or same_value(d, s):
            return
        elif not is_plain(s):
            advice = "`copy_` cannot write into it: leave it out, or let dst and src have the same one"
            self._values_differ(d, s, at_d, at_s, advice)
        elif place is None:
            advice = "what holds it cannot be changed: make both equal, or put it into a dict or list"
            self._values_differ(d, s, at_d, at_s, advice)
        else:
            spot = id(place[0]), place[2]
            earlier = self._new_values.get(spot)
            if earlier is not None and not same_value(earlier.value, s):
                advice = f"the same place takes {described(earlier.value)} from {path_text(earlier.path)}"
                self._values_differ(d, s, at_d, at_s, advice)
            self._new_values[spot] = NewValue(place, s, at_s)

    def _values_differ(self, d: Any, s: Any, at_d: Path, at_s: Path, advice: str = "") -> None:
        expected, found = described(d), described(s)
        self.differs(at_d, at_s, expected, "another" if found == expected else found, advice)


_HANDLERS: dict[tuple[str, str], Callable[[Matching, Any, Any, Path, Path], None]] = {
    ("module", "module"): Matching._modules,
    ("module", "mapping"): Matching._module_and_state_dict,
    ("mapping", "module"): Matching._module_and_state_dict,
    ("mapping", "mapping"): Matching._mappings,
    ("sequence", "sequence"): Matching._sequences,
    ("dataclass", "dataclass"): Matching._dataclasses,
    ("optimizer", "optimizer"): Matching._optimizers,
    ("optimizer", "mapping"): Matching._optimizers,
    ("mapping", "optimizer"): Matching._optimizers,
}


def _beside(d: Any, s: Any) -> tuple[list[Any], list[Any]] | None:
    """The values of two dicts, those of the second in the order of the first; None where the keys differ."""
    if len(d) != len(s):
        return None
    if not d:
        return [], []
    try:
        return list(d.values()), list(map(s.__getitem__, d.keys()))
    except KeyError:
        return None


def _fields(instance: Any) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(instance)]
    return {name: getattr(instance, name) for name in names if hasattr(instance, name)}


def _refuse_other_roots(dst: object, src: object) -> None:
    for name, value in (("dst", dst), ("src", src)):
        if _kind(type(value)) == "value" or isinstance(value, torch.Size):
            advice = ""
            if isinstance(value, Iterator):
                advice = ". An iterator gives its tensors once: pass the model itself, or a list of them"
            elif isinstance(dst, Tensor) and isinstance(value, (bool, int, float, complex)):
                advice = f". For one value everywhere, write `dst.fill_({value!r})`"
            raise InputError(f"{name} is {described(value)}: expected {ACCEPTED}{advice}")
