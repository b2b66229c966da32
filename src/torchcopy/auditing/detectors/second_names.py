"""TC109, as far as no copy is made at all: a name that promises values of its own, for what goes on being trained.

`best_model = model`, `self.target_net = self.q_net`, `before = list(model.parameters())`: the source tells which
names might be such. They are looked up when an optimizer has taken a step; what was written while it had the name,
and is then used by that name as if it had not been, is the mistake.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ... import _torch_private
from ..._tensors import has_storage
from ..finding_log import FindingLog
from ..naming.program_frames import attribute_of, evaluate, program_frames, values_in
from ..naming.sites import Sites
from ..naming.source_names import Binding, SourceNames, says_snapshot
from ..tracking.watched_objects import WatchedModules, WatchedTensors
from ..watching.op_plans import OpPlan

if TYPE_CHECKING:
    from ..watching.op_mode import OpMode

_MOST_TENSORS, _MOST_BINDINGS, _MOST_READS = 4096, 64, 10_000
_COMPARE = frozenset(
    f"aten::{name}"
    for name in (
        "sub dist eq ne equal mse_loss l1_loss smooth_l1_loss huber_loss copy_ _foreach_sub _foreach_copy_"
        " lerp lerp_ add add_ _foreach_lerp _foreach_lerp_ _foreach_add _foreach_add_"
    ).split()
)


class _Bound:
    """A name that had something when it was trained."""

    def __init__(self, owner: SecondNames, binding: Binding) -> None:
        self._owner, self.binding = owner, binding
        self.overwritten = self.reads = 0
        self.is_told = False
        self._module: weakref.ref[nn.Module] | None = None
        self._tensors: dict[int, weakref.ref[Tensor]] = {}

    def overwrite(self, value: Any, step: int) -> None:
        """A step was taken while the name had `value`."""
        if isinstance(value, nn.Module):
            if self._module is None or self._module() is not value:
                self._module = weakref.ref(value)
                self._owner.modules.watch(value, self)
        elif not self.is_told and self.reads <= _MOST_READS:
            self._tensors = {id(t): weakref.ref(t) for t in tensors_of(value)}
            for t in tensors_of(value):
                self._owner.tensors.watch(t, self)
        self.overwritten = step

    def has(self, value: Any) -> bool:
        """Whether that is what the name had."""
        if isinstance(value, nn.Module):
            return self._module is not None and self._module() is value
        there = tensors_of(value)
        return bool(there) and all((r := self._tensors.get(id(t))) is not None and r() is t for t in there)

    # --- uses -----------------------------------------------------------------------------------------------------

    def begins(
        self, mode: OpMode, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[], None] | None:
        """The module is called: by this name, without a gradient?"""
        del mode, module, args, kwargs
        for frame in program_frames(sys._getframe(), self._owner.sites):
            spoken = self._owner.names.at(frame.f_code, frame.f_lasti)
            if self._is_meant(frame, spoken.call):
                if spoken.is_detached or not torch.is_grad_enabled():
                    size = sum(p.nbytes for p in self._module().parameters())  # type: ignore[union-attr,misc]
                    self._owner.tell(self, frame, size)
                break
        return None

    def read(self, tensor: Tensor, plan: OpPlan, args: Any, targets: list[Tensor]) -> None:
        """One of the tensors is read: is it compared with itself, by this name?"""
        del targets
        if plan.name not in _COMPARE:
            return
        self.reads += 1
        if self.is_told or self.reads > _MOST_READS:
            self._owner.tensors.leave(self)
            return
        with _torch_private.outside_modes():
            is_compared = any((a is tensor or b is tensor) and _is_same_memory(a, b) for a, b in _pairs(args))
        if not is_compared or _torch_private.running_node() is not None:
            return
        for frame in program_frames(sys._getframe(), self._owner.sites):
            spoken = self._owner.names.at(frame.f_code, frame.f_lasti)
            if spoken.is_assertion:
                return
            if self._is_meant(frame, spoken.around):
                self._owner.tell(self, frame, tensor.nbytes)
                return

    def assigned(self, tensor: Tensor, value: Tensor, frame: FrameType) -> None:
        """`tensor.data = value`, where `value` is one of the tensors: is it given what it has?"""
        if not self.is_told and _is_same_memory(tensor, value):
            spoken = self._owner.names.at(frame.f_code, frame.f_lasti)
            if self._is_meant(frame, spoken.around):
                self._owner.tell(self, frame, tensor.nbytes)

    def _is_meant(self, frame: FrameType, names: frozenset[str]) -> bool:
        name = self.binding.name
        in_file = frame.f_code.co_filename == self.binding.path
        return in_file and name in names and self.has(evaluate(frame, name))


class SecondNames:
    """Looks up, after each step, what the names have that the source binds to something trained."""

    def __init__(
        self,
        findings: FindingLog,
        sites: Sites,
        names: SourceNames,
        tensors: WatchedTensors,
        modules: WatchedModules,
    ) -> None:
        self._findings, self.sites, self.names = findings, sites, names
        self.tensors, self.modules = tensors, modules
        self._paths: set[str] = set()
        self._bindings: list[Binding] = []
        self._bound: dict[Binding, _Bound] = {}
        self._lines: dict[Binding, int] = {}

    def stepped(self, optimizer: Any, frame: FrameType | None, step: int) -> None:
        """An optimizer has taken a step, at the line `step`."""
        frames = list(program_frames(frame, self.sites))
        for path in {each.f_code.co_filename for each in frames} - self._paths:
            self._paths.add(path)
            self._bindings += self.names.bindings(path)
            del self._bindings[_MOST_BINDINGS:]
        if not self._bindings or not isinstance(optimizer, Optimizer):
            return
        trained: set[int] | None = None
        for binding in self._bindings:
            for value in self._values(binding, frames):
                if trained is None:
                    trained = {
                        _torch_private.storage_id(p)
                        for group in optimizer.param_groups
                        for p in group["params"]
                        if has_storage(p)
                    }
                tensors = tensors_of(value)
                if not binding.other and isinstance(value, (nn.Module, Tensor)) and not binding.is_view:
                    continue  # `copy.copy` of one, which is seen as such
                if tensors and trained.issuperset(_torch_private.storage_id(t) for t in tensors):
                    bound = self._bound.setdefault(binding, _Bound(self, binding))
                    bound.overwrite(value, step)

    def _values(self, binding: Binding, frames: list[FrameType]) -> Iterator[Any]:
        """What a binding's name has now, where its other name has the same."""
        for frame in frames:
            code = frame.f_code
            if code.co_filename != binding.path:
                continue
            if "." not in binding.name:
                if binding.scope not in (code.co_qualname, "<module>"):
                    continue
                value = values_in(frame, {binding.name}).get(binding.name, frame.f_globals.get(binding.name))
                if not binding.other or (value is not None and evaluate(frame, binding.other) is value):
                    yield value
                    return
            elif (value := evaluate(frame, binding.name)) is not None and (
                not binding.other or _has_other_name(frame, binding.name, value)
            ):
                yield value
                return
        if binding.name.startswith("self.") and not binding.other:
            yield from _attributes_of_objects(frames, binding)

    def given_data(self, tensor: Tensor, value: Tensor, frame: FrameType | None) -> None:
        """`tensor.data = value` is about to happen, in a function of the program."""
        for reader in tuple(self.tensors.by_id.get(id(value), ())) if frame is not None else ():
            if isinstance(reader, _Bound):
                for each in itertools.islice(program_frames(frame, self.sites), 1):
                    reader.assigned(tensor, value, each)

    def tell(self, bound: _Bound, frame: FrameType, size: int) -> None:
        """A name was used as if what it has were not trained."""
        bound.is_told = True
        binding = bound.binding
        if binding not in self._lines:
            self._lines[binding] = self.sites.add(binding.line)
        what = (
            f"a second name for `{binding.other}`" if binding.other else "a collection of the parameters themselves"
        )
        self._findings.add(
            "TC109",
            f"`{binding.name}` has no values of its own, it is {what}: they were overwritten before it was used",
            [
                ("bound here, not copied", self._lines[binding]),
                ("overwritten here", bound.overwritten),
                ("used here", self.sites.of(frame)),
            ],
            fix="copy the values: `copy.deepcopy(model)` or `torchcopy.copy(model)`;"
            " `[p.detach().clone() for p in model.parameters()]`",
            size=size,
        )

    def clear(self) -> None:
        """Lets go of everything."""
        self._bound.clear()


def _has_other_name(frame: FrameType, name: str, value: Any) -> bool:
    """Whether the object that has `value` as an attribute has it by another name too, which promises nothing."""
    owner = evaluate(frame, name.rpartition(".")[0])
    held = getattr(owner, "__dict__", {})
    inner = held.get("_modules")
    every = itertools.chain(held.items(), inner.items() if isinstance(inner, dict) else ())
    return any(each is value and isinstance(other, str) and not says_snapshot(other) for other, each in every)


def _attributes_of_objects(frames: list[FrameType], binding: Binding) -> Iterator[Any]:
    """What objects of the binding's class have by its name, as far as a running function has them."""
    class_name = binding.scope.rpartition(".")[0]
    for frame in frames:
        owners = [*values_in(frame).values(), *frame.f_globals.values()]
        for owner in owners:
            if type(owner).__qualname__ == class_name and (value := _attribute(owner, binding.name)) is not None:
                yield value
                return


def _attribute(owner: Any, name: str) -> Any:
    for each in name.split(".")[1:]:
        owner = attribute_of(owner, each)
    return owner if isinstance(owner, (nn.Module, Tensor, list, tuple, dict)) else None


def tensors_of(value: Any) -> list[Tensor]:
    """The tensors of a module, a list, a tuple or a dict that has nothing but tensors, or the tensor itself."""
    if isinstance(value, nn.Module):
        found: list[Any] = list(value.parameters())
    elif isinstance(value, Tensor):
        found = [value]
    elif type(value) in (list, tuple):
        found = list(value)
    else:
        found = list(value.values()) if type(value) is dict else []
    is_all = len(found) <= _MOST_TENSORS and all(isinstance(t, Tensor) and has_storage(t) for t in found)
    return found if is_all else []


def _pairs(args: Any) -> Iterator[tuple[Any, Any]]:
    if len(args) < 2:
        return
    if isinstance(args[0], (list, tuple)) and isinstance(args[1], (list, tuple)):
        yield from zip(args[0], args[1], strict=False)
    else:
        yield args[0], args[1]


def _is_same_memory(a: Any, b: Any) -> bool:
    if not (isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape == b.shape):
        return False
    return _torch_private.storage_id(a) == _torch_private.storage_id(b) and (
        a.storage_offset() == b.storage_offset() and a.stride() == b.stride()
    )
