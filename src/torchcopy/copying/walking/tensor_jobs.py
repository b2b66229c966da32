"""The tensors of one walk: where each belongs, and all of them copied at once."""

from __future__ import annotations

import functools
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ... import _torch_private
from ..._tensors import has_storage, span_bytes
from ..objects.object_paths import held_objects
from ..tensors.kept_graph import copy_in_graph
from ..tensors.new_memory import Unwritten, write_values
from ..tensors.opaque import is_opaque
from ..tensors.tensor_copies import copy_tensors

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from ..request import Request
    from .walk import Walk

_EARLY_BYTES = 1 << 20  # less than this may be allocated before the walk has ended


class TensorJobs:
    """Notes the tensors that a walk meets, and copies them when it is time.

    A tensor in a list, a dict or an instance's `__dict__` is set into its place when it has been copied. Where
    Python needs the object at once (in a tuple, in a set, as a key), it gets an empty tensor that later receives
    the memory.
    """

    def __init__(self, request: Request, walk: Walk) -> None:
        self.request = request
        self.walk = walk
        self.sources: list[Tensor] = []
        self._number: dict[int, int] = {}
        self._unnumbered: list[tuple[list[int], int]] = []  # the ids of a run, and the number of the first one
        self.places: list[tuple[Any, Any, int]] = []  # container, key, number of the source that belongs there
        self.runs: list[tuple[Any, list[Any], int]] = []  # mapping, its keys, number of the first one's source
        self.shells: dict[int, Tensor] = {}
        self.ready: set[int] = set()  # of those that stand for a tensor already, the ones that were copied at once
        self.requiring: set[int] = set()  # leaves that require grad, where the plain tensor does not tell
        self.attributes: dict[int, dict[str, Any]] = {}
        self.gradients: dict[int, Tensor] = {}
        self.originals: dict[int, Tensor] = {}
        """By the id of the plain tensor that was copied for it: a tensor of another class."""
        self.early_bytes = 0
        self.gathering = False  # whether tensors are copied ahead of their turn
        self.attributes_later: list[tuple[int, Tensor]] = []  # of those that have some
        self.unwritten: Unwritten = []
        self.done: list[Tensor] = []
        """Every source that has been copied."""
        self.early: dict[int, list[tuple[Tensor, Tensor]]] = {}
        """By storage: what was copied before the walk had ended, and its copy; later views of it join in."""
        self.optimizers: list[Optimizer] = []
        self.found_in_optimizer: dict[int, Tensor] = {}

    @property
    def waiting(self) -> bool:
        """Whether there are tensors to copy."""
        return bool(self.sources)

    @property
    def number(self) -> dict[int, int]:
        """The number of each source, by id. Runs are entered when somebody asks: often nobody does."""
        for ids, first in self._unnumbered:
            self._number.update(zip(ids, range(first, first + len(ids)), strict=True))
        self._unnumbered.clear()
        return self._number

    def later(self, t: Tensor, container: Any, key: Any) -> None:
        """Sees to it that the copy of `t` will stand in `container[key]`."""
        identity = id(t)
        number = (self.number if self._unnumbered else self._number).get(identity)
        if number is None:
            known = self.walk.memo.get(identity)
            if known is not None:
                container[key] = known
                return
            self._number[identity] = number = len(self.sources)
            self.sources.append(t)
            self.places.append((container, key, number))
            if t.__dict__ or self.request.grad or self.walk.inside_optimizer:
                self.note(number, t)
        else:
            self.places.append((container, key, number))

    def all_later(self, names: list[Any], tensors: list[Any], container: Any) -> bool:
        """The same for many names of an empty container; False if they are no plain tensors met here first."""
        if self.request.grad or self.walk.inside_optimizer:
            return False
        ids = list(map(id, tensors))
        distinct = set(ids)
        if (
            not _PLAIN.issuperset(map(type, tensors))
            or len(distinct) < len(ids)
            or not self.walk.memo.keys().isdisjoint(distinct)
            or (self.sources and not self.number.keys().isdisjoint(distinct))
            or any(map(_attributes_of, tensors))
        ):
            return False
        self._unnumbered.append((ids, len(self.sources)))
        self.runs.append((container, names, len(self.sources)))
        self.sources += tensors
        return True

    def now(self, t: Tensor, plain: Tensor | None = None) -> Tensor:
        """An object that will be the copy of `t`.

        `plain` is `t` as an ordinary tensor, where its class is another.
        """
        number = self.number.get(id(t))
        if number is not None:
            known = self.shells.get(number)
            return self.shell(number, t) if known is None else known
        self.number[id(t)] = number = len(self.sources)
        self.sources.append(t if plain is None else plain)
        self.walk.alive.append(t)
        if plain is not None:
            self.originals[id(plain)] = t
            if t.requires_grad and t.is_leaf:
                self.requiring.add(number)
        shell = self.shell(number, t)
        if t.__dict__ or self.request.grad or self.walk.inside_optimizer:
            self.note(number, t)
        return shell

    def shell(self, number: int, t: Tensor) -> Tensor:
        """A tensor of `t`'s class, known from now on as its copy: empty, but where only a whole one can be made."""
        source = self.sources[number]
        if is_opaque(source) or _torch_private.is_traced():  # in a graph, it would stay empty
            self.walk.check_rest()
            shell = self._copies([source], None)[0]
            self.ready.add(number)
        else:
            shell = torch.empty(0, dtype=t.dtype, device=self.request.device or t.device)
        if type(t) is not type(shell):
            shell.__class__ = type(t)
        self.shells[number] = self.walk.memo[id(t)] = shell
        return shell

    def note(self, number: int, t: Tensor) -> None:
        """Copies what hangs on a tensor beside its values: Python attributes, and the gradient on request.

        What is met there may have every tensor filled in, this one among them.
        """
        walk = self.walk
        if walk.inside_optimizer:
            self.found_in_optimizer[id(t)] = t
        before, walk.may_set_later = walk.may_set_later, not self.request.shares_something
        if self.request.grad and t.is_leaf and t.grad is not None:
            gradient = walk.deep_now(t.grad)
            if self.number.get(id(t)) == number:
                self.gradients[number] = gradient
            else:
                walk.memo[id(t)].grad = gradient
        if t.__dict__ and self.gathering:
            self.attributes_later.append((number, t))
        elif t.__dict__:
            copied: dict[str, Any] = {}
            if self.number.get(id(t)) == number:
                self.attributes[number] = copied
            else:
                walk.memo[id(t)].__dict__ = copied
            walk.items(t.__dict__, copied)
        walk.may_set_later = before

    # --- copying -------------------------------------------------------------------------------------------

    def will_take(self, size_bytes: int) -> None:
        """Refuses what the rest of the walk would refuse, before more than a little memory is taken early."""
        self.early_bytes += size_bytes
        if self.early_bytes > _EARLY_BYTES:
            self.walk.check_rest()

    def fill_early(self) -> None:
        """Copies what there is before the walk has ended; refuses first what the rest of the walk would refuse."""
        self.will_take(sum(span_bytes(t) for t in self.sources if not is_opaque(t)))
        self._gather_views()
        self.fill(early=True)

    @functools.cached_property
    def reachable(self) -> dict[int, Any]:
        """By id: tensors in the whole object that PyTorch knows how to copy, and what is kept by reference."""
        is_shared = self.request.is_shared
        return {id(x): x for x in held_objects(self.walk.root) if _is_copied_by_us(type(x)) or is_shared(x)}

    @functools.cached_property
    def _reachable_by_storage(self) -> dict[int, list[Tensor]]:
        """The same tensors by storage, those that are copied; each storage until its views have been gathered."""
        found: dict[int, list[Tensor]] = {}
        for t in self.reachable.values():
            if not self.request.is_shared(t) and has_storage(t):
                found.setdefault(_torch_private.storage_id(t), []).append(t)
        return found

    def _gather_views(self) -> None:
        """Has all views of the waiting storages copied together, also those that the walk has yet to meet."""
        converts, known = self.request.dtype is not None, 0
        while known < len(self.sources):  # with a leaf comes its gradient, which may be a view too
            known = len(self.sources)
            self._gather_views_of([t for t in self.sources if not is_opaque(t) and (converts or not _is_whole(t))])

    def _gather_views_of(self, views: list[Tensor]) -> None:
        """The same for the storages of `views`."""
        if not views:
            return
        self.gathering = True
        for storage in dict.fromkeys(_torch_private.storage_ids(views)):
            for t in self._reachable_by_storage.pop(storage, ()):
                if id(t) not in self.number and id(t) not in self.walk.memo:
                    self.walk.deep_now(t)
        self.gathering = False

    def fill(self, *, early: bool = False) -> None:
        """Copies every waiting tensor and puts it where it belongs. Large ones have values only after `write`.

        All that is left to do around them comes first, while the processor still has in its caches what that takes.
        """
        while self.attributes_later and not early:
            self.note(*self.attributes_later.pop())
        if not self.sources:
            return
        sources = self.sources
        looked_up = early or self.walk.memo_is_shared  # by others, also after an error
        copies = self._copies(sources, None if looked_up else self.unwritten)
        if self.request.graph == "detach":
            self._finish(sources, copies)
        for number, shell in self.shells.items():
            copies[number] = shell
        if looked_up:
            self.walk.memo.update(zip(map(id, sources), copies, strict=True))
            self.walk.alive += sources
        for container, keys, first in self.runs:
            for key, copied in zip(keys, copies[first : first + len(keys)], strict=True):
                container[key] = copied  # quicker than `update` of an OrderedDict
        for container, key, number in self.places:
            container[key] = copies[number]
        for number, attributes in self.attributes.items():
            copies[number].__dict__ = attributes  # the very dict: entries may still be added
        for number, gradient in self.gradients.items():
            copies[number].grad = gradient
        if early:
            self._remember_storages(sources, copies)
        self.done += sources
        self._forget()

    def _copies(self, sources: list[Tensor], unwritten: Unwritten | None) -> list[Tensor]:
        if self.request.graph == "keep":
            return copy_in_graph(sources, self.request)
        return copy_tensors(sources, self.request, self.early, unwritten)

    def write(self) -> None:
        """Writes the values of what `fill` has put into place. Nobody but the walk has seen it yet."""
        write_values(self.unwritten)
        self.unwritten.clear()

    def _finish(self, sources: list[Tensor], copies: list[Tensor]) -> None:
        """Gives the copies their class and whether they require grad; the empty tensors get their memory."""
        for number, shell in self.shells.items():
            if number not in self.ready:
                shell.data = copies[number]
            copies[number] = shell
        wanted = self.request.requires_grad
        classes = set(map(type, sources))
        are_parameters = wanted is None and classes == {_PARAMETER}
        if are_parameters and all(map(_requires_grad, sources)) and all(map(_is_leaf, sources)):
            for c in copies:
                c.__class__ = _PARAMETER
                c.requires_grad = True
        elif _PARAMETER in classes or (wanted is None and any(map(_requires_grad, sources))):
            for t, c in zip(sources, copies, strict=True):
                if type(t) is _PARAMETER:
                    c.__class__ = _PARAMETER  # as PyTorch does when a lazy parameter materialises
                if wanted is None and t.requires_grad and t.is_leaf:
                    c.requires_grad = True
        if wanted is None:
            for number in self.requiring:
                copies[number].requires_grad = True
        else:
            for c in copies:
                if c.is_floating_point() or c.is_complex():
                    c.requires_grad = wanted

    def _remember_storages(self, sources: list[Tensor], copies: list[Tensor]) -> None:
        for t, c in zip(sources, copies, strict=True):
            if has_storage(t) and has_storage(c):
                self.early.setdefault(_torch_private.storage_id(t), []).append((t, c))

    def _forget(self) -> None:
        self.sources, self.places, self.runs = [], [], []
        self._number, self.shells, self.attributes, self.gradients = {}, {}, {}, {}
        self._unnumbered = []
        self.ready, self.requiring = set(), set()


def _is_whole(t: Tensor) -> bool:
    """Whether a copy of `t` has all of its storage, as it is there: views that are met later can join in."""
    whole = t.is_contiguous() and t.untyped_storage().nbytes() == t.nbytes
    return whole and not (t.is_conj() or t.is_neg())


def _is_copied_by_us(cls: type) -> bool:
    """Whether instances are tensors without a `__deepcopy__` of their own."""
    return issubclass(cls, Tensor) and cls.__deepcopy__ in (Tensor.__deepcopy__, nn.Parameter.__deepcopy__)


_PARAMETER = nn.Parameter
_PLAIN = frozenset({Tensor, nn.Parameter})
_requires_grad = attrgetter("requires_grad")
_is_leaf = attrgetter("is_leaf")
_attributes_of = attrgetter("__dict__")
