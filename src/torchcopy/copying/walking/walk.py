"""The walk through an object: copies it as `copy.deepcopy` does, and leaves its tensors to be copied all at once.

Every rule of `copy.deepcopy` holds here: the memo, `__deepcopy__`, `copyreg`, `__reduce_ex__`, `__setstate__`. What
differs is when tensors are copied. The walk only notes where each belongs; when it is done, all of them are copied
in a few calls. So nothing is allocated before the whole object is known to be copyable. Where code that is not
ours is about to see copied tensors (a constructor, a `__setstate__`), they are filled in first.
"""

from __future__ import annotations

import types
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn

from ..collector import no_collection
from ..refusals import KeepsNoModule, Uncopyable, find_uncopyable
from .nested_calls import Memo
from .optimizers import check_parameters_come_along
from .protocol import copy_by_protocol
from .recipes import Recipe, recipe_of
from .tensor_jobs import TensorJobs

if TYPE_CHECKING:
    from ..request import Request

_ABSENT: Final = object()
_PARAMETER: Final = nn.Parameter

IMMUTABLE: Final[frozenset[type]] = frozenset(
    {
        type(None),
        type(Ellipsis),
        type(NotImplemented),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        range,
        types.CodeType,
        torch.dtype,
        torch.layout,
        torch.memory_format,
        torch.device,
        torch.Size,
        torch.finfo,
        torch.iinfo,
        torch.SymInt,
        torch.SymFloat,
        torch.SymBool,
    }
)
"""Types whose values are their own copies, and can hold no tensor."""

_BY_REFERENCE: Final[frozenset[type]] = frozenset(
    {type, types.FunctionType, types.BuiltinFunctionType, weakref.ref, property}
)
"""Types that `copy.deepcopy` keeps by reference, though they may lead to a tensor."""


class Walk:
    """One call of `copy`: its memo, what it has kept by reference, and the tensors that are still to be copied."""

    def __init__(self, request: Request, memo: dict[int, Any] | None) -> None:
        self.request = request
        self.memo: dict[int, Any] = Memo() if memo is None else memo
        self.memo_is_shared = memo is not None
        self.tensors = TensorJobs(request, self)
        self.kept: dict[int, Any] = {}
        """By id: what is in the copy as it was in the source, and may lead back to the source's tensors."""
        self.alive: list[Any] = []
        """What has been copied: a temporary that died would leave its id to another object."""
        self.after: list[Callable[[], object]] = []
        """What is left to do when every tensor is there."""
        self.inside_optimizer = 0
        self.root: Any = None
        self.rest_checked = False
        self.failed_at: Any = None
        """What was being copied when code that is not ours raised an error."""
        self.recipes: dict[type, Recipe] = {}
        self.quick = not request.shares_something  # whether nothing has to be asked for before it is copied
        # Whether a tensor may be set into its place later; not where others look at the place before.
        self.may_set_later = True
        self.handlers: dict[type, Callable[[Any], Any]] = {
            list: self.copy_list,
            dict: self.copy_dict,
            tuple: self.copy_tuple,
            set: self.copy_set,
            OrderedDict: self.copy_ordered_dict,
            defaultdict: self.copy_defaultdict,
            types.MethodType: self.copy_method,
            Tensor: self.tensors.now,
            _PARAMETER: self.tensors.now,
            **dict.fromkeys(_BY_REFERENCE, self.keep),
        }
        if not self.quick:
            self.deep = self.deep_unless_shared  # type: ignore[method-assign]
            self.may_set_later = False  # every object goes through `deep`

    def copy(self, x: Any) -> Any:
        """The copy of `x`, complete.

        Raises:
            Uncopyable: something in it cannot be copied. No large memory was taken.
            CopyError: it holds an optimizer without its parameters.
        """
        self.root = x
        holder = [None]  # a place to set a lone tensor into
        cls = type(x)
        if (cls is Tensor or cls is _PARAMETER) and not self.request.is_shared(x) and id(x) not in self.memo:
            self.tensors.later(x, holder, 0)
            self.finish()
            return holder[0]
        with no_collection():
            holder[0] = self.deep(x)
            self.finish()
        return holder[0]

    def finish(self) -> None:
        """What is left when the whole object has been walked through."""
        self.keep_alive()
        if self.tensors.found_in_optimizer and not self.request.only_looks:
            check_parameters_come_along(self.root, self.tensors.optimizers, self.tensors.found_in_optimizer)
        self.tensors.fill()
        for action in self.after:
            action()

    def copy_within(self, x: Any) -> Any:
        """The copy of `x`, which is a part of what is being copied, for code that is not ours."""
        y = self.deep_now(x)
        self.show_all()
        return y

    def answer(self, identity: int, otherwise: Any) -> Any:
        """What a `__deepcopy__` finds in the memo for an object that is not there yet: tensors are copied now."""
        x = self.tensors.reachable.get(identity)
        if x is None:
            return otherwise
        return x if self.request.is_shared(x) else self.copy_within(x)

    def deep_now(self, x: Any) -> Any:
        """The copy of `x`, with an object for each tensor in it."""
        before, self.may_set_later = self.may_set_later, False
        try:
            return self.deep(x)
        finally:
            self.may_set_later = before

    def close(self) -> None:
        """Lets go of everything at once: the walk refers to itself, and what it holds is large."""
        self.handlers.clear()
        self.__dict__.pop("deep", None)
        del self.tensors

    # --- any object ----------------------------------------------------------------------------------------

    def deep(self, x: Any) -> Any:
        """The copy of `x`; tensors in it may still have to be filled in."""
        cls = type(x)
        if cls in IMMUTABLE:
            return x
        y = self.memo.get(id(x), _ABSENT)
        if y is not _ABSENT:
            return y
        handler = self.handlers.get(cls)
        if handler is not None:
            return handler(x)
        return self.instance(x, cls)

    def deep_unless_shared(self, x: Any) -> Any:
        """As `deep`, where the caller asked for some objects to be kept by reference."""
        if type(x) in IMMUTABLE or self.request.is_shared(x):
            return x
        return Walk.deep(self, x)

    def keep(self, x: Any) -> Any:
        """`x` itself, remembered as a way back to the source."""
        self.kept[id(x)] = x
        return x

    def copy_list(self, x: list[Any]) -> list[Any]:
        """Element by element."""
        y: list[Any] = []
        self.memo[id(x)] = y
        self.alive.append(x)
        append, deep, later = y.append, self.deep, self.tensors.later
        for a in x:
            cls = type(a)
            if cls in IMMUTABLE:
                append(a)
            elif (cls is Tensor or cls is _PARAMETER) and self.may_set_later:
                append(None)
                later(a, y, len(y) - 1)
            else:
                append(deep(a))
        return y

    def copy_dict(self, x: dict[Any, Any]) -> dict[Any, Any]:
        """Keys and values."""
        y: dict[Any, Any] = {}
        self.memo[id(x)] = y
        self.alive.append(x)
        self.items(x, y)
        return y

    def copy_ordered_dict(self, x: OrderedDict[Any, Any]) -> OrderedDict[Any, Any]:
        """Keys, values and attributes: a state_dict has `_metadata`."""
        y: OrderedDict[Any, Any] = OrderedDict()
        self.memo[id(x)] = y
        self.alive.append(x)
        if x:
            self.items(x, y)
        if x.__dict__:
            self.items(x.__dict__, y.__dict__)
        return y

    def copy_defaultdict(self, x: defaultdict[Any, Any]) -> defaultdict[Any, Any]:
        """What makes the values that are missing, and those that are there: the state of an optimizer."""
        y: defaultdict[Any, Any] = defaultdict(self.deep(x.default_factory))
        self.memo[id(x)] = y
        self.alive.append(x)
        self.items(x, y)
        return y

    def items(self, x: Any, y: Any) -> None:
        """Copies the items of the mapping `x` into the empty mapping `y`."""
        if len(x) > _MANY and type(next(iter(x.values()), None)) in _OFTEN_MANY and self.all_at_once(x, y):
            return
        deep, memo, alive, quick = self.deep, self.memo, self.alive, self.quick
        later = self.tensors.later if self.may_set_later else None
        for key, value in x.items():
            if type(key) is not str and type(key) not in IMMUTABLE:
                key = deep(key)
            cls = type(value)
            if cls in IMMUTABLE:
                y[key] = value
            elif cls in _OFTEN_EMPTY and not value and quick and id(value) not in memo:
                if cls is OrderedDict and value.__dict__:
                    y[key] = deep(value)
                else:
                    y[key] = memo[id(value)] = cls()
                    alive.append(value)
            elif cls is tuple and IMMUTABLE.issuperset(map(type, value)) and quick and id(value) not in memo:
                y[key] = value
            elif later is not None and (cls is Tensor or cls is _PARAMETER):
                y[key] = None  # keeps the order
                later(value, y, key)
            else:
                y[key] = deep(value)

    def all_at_once(self, x: Mapping[Any, Any], y: Any) -> bool:
        """Copies what programs have many of, in a few calls: tensors by name, settings; False if it is not that."""
        names = list(x)
        if not self.quick or not _NAMES.issuperset(map(type, names)):
            return False
        values = list(x.values())
        if not _belong_together(names, values, x):
            return False
        if {dict}.issuperset(map(type, values)):
            return self.settings_at_once(names, values, y)
        return self.may_set_later and self.tensors.all_later(names, values, y)

    def settings_at_once(self, names: list[Any], values: list[dict[Any, Any]], y: Any) -> bool:
        """The same for dicts of numbers and strings, such as the versions of all modules in a state_dict."""
        ids = list(map(id, values))
        copies = list(map(dict.copy, values))  # first, so that nobody can add to them what was not looked at
        if not (
            _NAMES.issuperset(map(type, chain.from_iterable(copies)))
            and IMMUTABLE.issuperset(map(type, chain.from_iterable(map(dict.values, copies))))
            and self.memo.keys().isdisjoint(ids)
            and len(set(ids)) == len(ids)
        ):
            return False
        self.memo.update(zip(ids, copies, strict=True))
        self.alive += values
        for name, copied in zip(names, copies, strict=True):
            y[name] = copied
        return True

    def copy_tuple(self, x: tuple[Any, ...]) -> tuple[Any, ...]:
        """A new tuple, or `x` itself where nothing in it had to be copied."""
        deep = self.deep
        y = [a if type(a) in IMMUTABLE else deep(a) for a in x]
        seen: Any = self.memo.get(id(x), _ABSENT)
        if seen is not _ABSENT:  # it holds itself, and has been copied on the way
            return seen  # type: ignore[no-any-return]
        for a, b in zip(x, y, strict=True):
            if a is not b:
                copied = tuple(y)
                self.memo[id(x)] = copied
                self.alive.append(x)
                return copied
        return x

    def copy_set(self, x: set[Any]) -> set[Any]:
        """Element by element; each has to be an object that can be hashed."""
        y: set[Any] = set()
        self.memo[id(x)] = y
        self.alive.append(x)
        for a in x:
            y.add(a if type(a) in IMMUTABLE else self.deep_now(a))
        return y

    def copy_method(self, x: types.MethodType) -> types.MethodType:
        """The same function, bound to the copy of its object."""
        self.keep(x.__func__)
        y = type(x)(x.__func__, self.deep(x.__self__))
        self.remember(x, y)
        return y

    # --- instances -----------------------------------------------------------------------------------------

    def instance(self, x: Any, cls: type) -> Any:
        """The copy of an instance of a class that has no handler."""
        recipe = self.recipes.get(cls)
        if recipe is None:
            if self.request.only_looks and issubclass(cls, (nn.Module, torch.optim.Optimizer)):
                raise KeepsNoModule(x)
            recipe = self.recipes[cls] = recipe_of(cls)
        if recipe.special is not None:
            return recipe.special(self, x)
        if recipe.by_dict:
            state = x.__dict__
            # `copy.deepcopy` looks for these on the instance too.
            if not (
                "__deepcopy__" in state
                or "__reduce_ex__" in state
                or "__getstate__" in state
                or "_compiled_call_impl" in state
            ):
                y = recipe.new(cls)
                self.memo[id(x)] = y
                self.alive.append(x)
                self.items(state, y.__dict__)
                return y
        return copy_by_protocol(self, x, cls)

    # --- between this walk and code that is not ours -------------------------------------------------------

    def show_all(self) -> None:
        """Fills in every tensor so far, for somebody is about to look."""
        self.keep_alive()
        if self.tensors.waiting:
            self.tensors.fill_early()

    def check_rest(self) -> None:
        """Refuses what the rest of the walk would refuse, before much memory is taken."""
        if not self.rest_checked:
            self.rest_checked = True
            culprit = find_uncopyable(self.root, self.request.is_shared)
            if culprit is not None:
                raise Uncopyable(culprit)

    def remember(self, x: Any, y: Any) -> None:
        """Notes in the memo that `y` is the copy of `x`."""
        if y is not x:
            self.memo[id(x)] = y
            self.alive.append(x)

    def keep_alive(self) -> None:
        """Keeps what was copied alive for as long as the memo lives, in the place where `copy.deepcopy` does."""
        if self.alive:
            self.memo.setdefault(id(self.memo), []).extend(self.alive)
            self.alive.clear()


def _belong_together(names: list[Any], values: list[Any], x: Mapping[Any, Any]) -> bool:
    """Whether another thread has left `x` alone between the two lists: what is added or taken moves an end."""
    return (
        0 < len(names) == len(values) == len(x) and x.get(names[0]) is values[0] and x.get(names[-1]) is values[-1]
    )


_MANY: Final = 8  # items in a mapping, from which on it pays to look at all of them together
_NAMES: Final = frozenset({str, int})
_OFTEN_MANY: Final = frozenset({Tensor, nn.Parameter, dict})
_OFTEN_EMPTY: Final = frozenset({OrderedDict, dict, list, set})  # a module has some fifteen
