"""TC109, as far as `copy.copy` makes it: modules, tensors, dicts or lists that share the memory of tensors."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ... import _torch_private
from ..._tensors import has_storage
from ..finding_log import FindingLog
from ..naming.program_frames import evaluate, program_frames, values_in
from ..naming.sites import Sites
from ..naming.source_names import SourceNames, bound_name, says_snapshot
from ..tracking.storages import WatchedStorages, Write
from ..tracking.watched_objects import WatchedModules, WatchedTensors
from ..watching.op_plans import OpPlan

if TYPE_CHECKING:
    from ..watching.op_mode import OpMode

MESSAGE = "{what} shares its values with what it was to be a copy of: they were overwritten before it was used"
_MOST_WATCHED, _MOST_SHARED = 256, 1024
_Items = dict[Any, Any] | list[Any]


class _SharedModules:
    """A module and its shallow copy: which of them was called, and what was written meanwhile."""

    def __init__(self, original: nn.Module, made: nn.Module, copied: int, may_be_trained: bool) -> None:
        self.original, self.made = weakref.ref(original), weakref.ref(made)
        self.copied, self.may_be_trained = copied, may_be_trained
        self.overwritten = self.size = 0
        self.is_trained = self.is_on_purpose = False
        self.uses: dict[int, int] = {}

    def written(self, storage: int, write: Write) -> bool:
        """One of their tensors was written."""
        del storage
        self.overwritten = self.overwritten or write.site
        return True

    def gone(self, storage: int) -> None:
        """Nothing more will be written."""


class _SharedTensor:
    """A tensor and its shallow copy."""

    def __init__(self, owner: ShallowCopies, sides: tuple[Tensor, Tensor], copied: int) -> None:
        self._owner, self._copied = owner, copied
        self._sides = tuple(weakref.ref(side) for side in sides)
        self._through = -1
        self._overwritten = 0

    def _side(self, t: Tensor) -> int:
        copy = self._sides[1]()
        return int(copy is not None and (t is copy or t._base is copy))

    def written(self, storage: int, write: Write) -> bool:
        """Their memory was written, through one of the two or a view of it."""
        del storage
        if self._through < 0:
            with _torch_private.outside_modes():
                self._through = int(any(self._side(t) for t in write.targets))
            self._overwritten = write.site
        return True

    def gone(self, storage: int) -> None:
        """Neither can be read any more."""

    def read(self, tensor: Tensor, plan: OpPlan, args: Any, targets: list[Tensor]) -> None:
        """One of the two is read, or viewed."""
        del plan, args
        if self._through < 0 or any(tensor is t for t in targets):
            return
        with _torch_private.outside_modes():
            is_other = self._side(tensor) != self._through
        if is_other:
            self._owner.tell("`copy.copy` of a tensor", self._copied, self._overwritten, 0, tensor.nbytes)


class _SharedItems:
    """A dict or list and its shallow copy, which have the same tensors."""

    def __init__(self, owner: ShallowCopies, sides: tuple[_Items, _Items], copied: int) -> None:
        self._owner, self._copied = owner, copied
        self._sides = (id(sides[0]), id(sides[1]))  # neither can be referred to weakly
        self._written: dict[int, tuple[int, int]] = {}  # the first write, by storage: through which, at which line
        self._order = [id(t) for t in sides[0]] if isinstance(sides[0], list) else []
        self._is_on_purpose = False

    def _side(self, tensors: Iterable[Tensor]) -> int:
        """Through which of the two the program has got hold of some tensors; -1 where that cannot be told."""
        owner = self._owner
        wanted = {_torch_private.storage_id(t) for t in tensors if has_storage(t)}
        for frame in program_frames(sys._getframe(), owner.sites):
            spoken = owner.names.at(frame.f_code, frame.f_lasti)
            for names in (spoken.inside, spoken.around, None):
                values = [evaluate(frame, n) for n in names] if names is not None else values_in(frame).values()
                sides = {self._which(value, wanted) for value in values} - {-1}
                if sides:
                    return sides.pop() if len(sides) == 1 else -1
        return -1

    def _which(self, value: Any, wanted: set[int]) -> int:
        if type(value) not in (dict, list) or id(value) not in self._sides:
            return -1
        if isinstance(value, list) and _is_in_other_order([id(t) for t in value], self._order):
            self._is_on_purpose = True  # it was copied to be shuffled, or used up
        inner = [t for t in _items(value) if isinstance(t, Tensor) and has_storage(t)]
        has = any(_torch_private.storage_id(t) in wanted for t in inner)
        return self._sides.index(id(value)) if has else -1

    def written(self, storage: int, write: Write) -> bool:
        """One of their tensors was written."""
        if storage not in self._written:
            with _torch_private.outside_modes():
                side = self._side(write.targets)
            if side >= 0:
                self._written[storage] = side, write.site
        return True

    def gone(self, storage: int) -> None:
        """It cannot be read any more."""
        self._written.pop(storage, None)

    def read(self, tensor: Tensor, plan: OpPlan, args: Any, targets: list[Tensor]) -> None:
        """One of their tensors is read, or viewed."""
        del plan, args
        if not self._written or any(tensor is t for t in targets):
            return
        with _torch_private.outside_modes():
            through, overwritten = self._written.get(_torch_private.storage_id(tensor), (-1, 0))
            if through >= 0 and self._side([tensor]) == 1 - through and not self._is_on_purpose:
                self._owner.tell("a shallow copy", self._copied, overwritten, 0, tensor.nbytes)
                self._owner.tensors.leave(self)


class ShallowCopies:
    """Follows what `copy.copy` has made at a line of the program's own."""

    def __init__(
        self,
        findings: FindingLog,
        sites: Sites,
        names: SourceNames,
        storages: WatchedStorages,
        tensors: WatchedTensors,
        modules: WatchedModules,
    ) -> None:
        self._findings, self.sites, self.names, self._storages = findings, sites, names, storages
        self.tensors, self._modules = tensors, modules
        self._shared: list[_SharedModules] = []

    # --- copies ---------------------------------------------------------------------------------------------------

    def _line(self, frame: FrameType | None) -> int:
        """The line that has called `copy.copy`, if it is one of the program's own."""
        if frame is None or not self.sites.is_program_code(frame.f_code):
            return 0
        return self.sites.of(frame)

    def module_copied(self, original: nn.Module, made: nn.Module, frame: FrameType | None) -> None:
        """`copy.copy(original)` has made a module around the same parameters."""
        site = self._line(frame)
        tensors = [t for t in (*original.parameters(), *original.buffers()) if has_storage(t)]
        if not site or frame is None or not tensors:
            return
        name = bound_name(frame.f_code.co_filename, frame.f_lineno)
        shared = _SharedModules(original, made, site, says_snapshot(name))
        shared.size = sum(t.nbytes for t in tensors)
        for t in tensors[:_MOST_WATCHED]:
            self._storages.watch(t, shared)
        if len(self._shared) >= _MOST_SHARED:  # those that are gone and were not used wrongly have nothing to tell
            self._shared = [each for each in self._shared if each.uses or each.made() is not None][-_MOST_SHARED:]
        self._shared.append(shared)
        for module in (original, made):
            self._modules.watch(module, _Side(self, shared))

    def tensor_copied(self, original: Tensor, made: Tensor, frame: FrameType | None) -> None:
        """`copy.copy(original)` has made a tensor on the same memory."""
        site = self._line(frame)
        if site and has_storage(original) and has_storage(made) and _same_storage(original, made):
            shared = _SharedTensor(self, (original, made), site)
            self._storages.watch(original, shared)
            self.tensors.watch(original, shared)
            self.tensors.watch(made, shared)

    def items_copied(self, original: _Items, made: _Items, frame: FrameType | None) -> None:
        """`copy.copy(original)` has made a dict or list of the same tensors; what is trained is to be shared."""
        tensors = [
            t
            for t in _items(original)
            if isinstance(t, Tensor) and not t.requires_grad and not isinstance(t, nn.Parameter) and has_storage(t)
        ]
        site = self._line(frame) if tensors else 0
        if site:
            shared = _SharedItems(self, (original, made), site)
            for t in tensors[:_MOST_WATCHED]:
                self._storages.watch(t, shared)
                self.tensors.watch(t, shared)

    # --- uses -----------------------------------------------------------------------------------------------------

    def called(self, shared: _SharedModules, module: nn.Module) -> None:
        """One of two modules is called."""
        original, made = shared.original(), shared.made()
        with_gradients = torch.is_grad_enabled()
        if module is original:
            shared.is_trained = shared.is_trained or with_gradients
            return
        if original is None or made is None:
            return
        if _differ(original, made, besides=() if not shared.may_be_trained else ("training",)):
            shared.is_on_purpose = True
        if with_gradients and not shared.may_be_trained:
            shared.is_on_purpose = True  # both are trained: they share weights
        if shared.overwritten and not shared.is_on_purpose:
            site = self.sites.here()
            shared.uses[site] = shared.uses.get(site, 0) + 1

    def tell(self, what: str, copied: int, overwritten: int, used: int, size: int, count: int = 1) -> None:
        """Reports one; 0 for the line that runs."""
        used = used or self.sites.here()
        self._findings.add(
            "TC109",
            MESSAGE.format(what=what),
            [("copied here, shallowly", copied), ("overwritten here", overwritten), ("used here", used)],
            fix="copy the values: `copy.deepcopy(…)`, or `torchcopy.copy(…)`",
            size=size,
            count=count,
        )

    def finish(self) -> None:
        """Reports the modules: only now it is known that they were not meant to share their weights."""
        for shared in self._shared:
            if shared.is_trained and not shared.is_on_purpose:
                for used, count in shared.uses.items():
                    self.tell(
                        "`copy.copy` of a module", shared.copied, shared.overwritten, used, shared.size, count
                    )
        self._shared.clear()


class _Side:
    """Is told of the calls of two modules that share their tensors."""

    def __init__(self, owner: ShallowCopies, shared: _SharedModules) -> None:
        self._owner, self._shared = owner, shared

    def begins(
        self, mode: OpMode, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[], None] | None:
        """One of the two is called."""
        del mode, args, kwargs
        self._owner.called(self._shared, module)
        return None


def _items(value: _Items) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _is_in_other_order(items: list[int], before: list[int]) -> bool:
    """Whether a list has fewer or more items than it had, or the same ones elsewhere."""
    return len(items) != len(before) or (items != before and sorted(items) == sorted(before))


def _same_storage(a: Tensor, b: Tensor) -> bool:
    return _torch_private.storage_id(a) == _torch_private.storage_id(b)


def _differ(original: nn.Module, made: nn.Module, besides: tuple[str, ...]) -> bool:
    """Whether the copy was given something of its own: then it was copied for that, and not for its values."""
    one, other = vars(original), vars(made)
    return any(
        name not in besides and one.get(name, _differ) is not other.get(name, _differ)
        for name in one.keys() | other.keys()
    )
