"""TC108: a module that was deep-copied computes with tensors of the one that it was copied from."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.optim import Optimizer

from ..finding_log import FindingLog
from ..naming.sites import Sites
from ..tracking.watched_objects import WatchedModules

if TYPE_CHECKING:
    from ..watching.op_mode import OpMode

_STORES = ("_parameters", "_buffers")
_FIX = (
    "use what the copy has: a method, or a hook that takes the module it is given, in place of a function that"
    " remembers the original; `torchcopy.copy` tells where a copy still leads to its source"
)


class Foreign:
    """A tensor of an original, while the forward of its copy runs.

    Attributes:
        tensor: as a weak reference.
        name: in the module that has it.
        copied: the line of the copy.
        module: the copy whose forward runs, as a weak reference.
    """

    __slots__ = ("copied", "module", "name", "tensor")

    def __init__(self, tensor: weakref.ref[Tensor], name: str, copied: int, module: weakref.ref[nn.Module]) -> None:
        self.tensor, self.name, self.copied, self.module = tensor, name, copied, module


class _Copy:
    """What is known of one copied module, which is a submodule of another most of the time."""

    __slots__ = ("all_refused", "copied", "foreign", "inside", "module", "refused", "tensors", "version")

    def __init__(self, module: nn.Module, copied: int, gone: Callable[[Any], None]) -> None:
        self.module, self.copied = weakref.ref(module, gone), copied
        self.tensors: dict[str, list[weakref.ref[Tensor]]] = {}  # of the originals, that of the nearest first
        self.refused: list[_Refused] = []
        self.all_refused: list[_Refused] = []
        self.version = -1
        self.foreign: dict[int, Foreign] = {}
        self.inside: frozenset[int] = frozenset()


class _Refused:
    """A submodule that has not let itself be copied: the original and the copy share it."""

    __slots__ = ("child", "copied", "step")

    def __init__(self, child: nn.Module, copied: int, step: int) -> None:
        self.child, self.copied, self.step = weakref.ref(child), copied, step


Refusal = tuple[_Refused, _Copy]
"""A submodule that has refused, and the copy that was made of the whole."""


class CopiedModules:
    """Knows which module was copied from which, and looks at what runs within a copy's forward.

    Attributes:
        watched: the copies; a call of theirs is told to this.
    """

    def __init__(
        self,
        findings: FindingLog,
        sites: Sites,
        watched: WatchedModules,
        steps: Callable[[], int],
        optimizers: Callable[[], Iterable[Any]],
    ) -> None:
        self._findings, self._sites, self.watched = findings, sites, watched
        self._steps, self._optimizers = steps, optimizers
        self._copies: dict[int, _Copy] = {}  # by identity: a module may be one that has no hash
        self._version = 0

    # --- copies ---------------------------------------------------------------------------------------------------

    def copied(self, original: nn.Module, made: nn.Module, memo: Mapping[int, Any], site: int) -> None:
        """`copy.deepcopy` has made a module, and its submodules before."""
        earlier = self._copy_of(original)
        copy = self._copies[id(made)] = _Copy(made, site, self._forget(id(made)))
        for store in _STORES:
            theirs, own = vars(original).get(store) or {}, vars(made).get(store) or {}
            for name, tensor in theirs.items():
                if isinstance(tensor, Tensor) and own.get(name) is not tensor and own.get(name) is not None:
                    before = earlier.tensors.get(name, []) if earlier is not None else []
                    copy.tensors[name] = [weakref.ref(tensor), *before[:7]]
        children = vars(made).get("_modules") or {}
        for name, child in (vars(original).get("_modules") or {}).items():
            is_shared = children.get(name) is child and memo.get(id(child)) is not child
            if is_shared and isinstance(child, nn.Module):
                copy.refused.append(_Refused(child, site, self._steps()))
                self.watched.watch(child, self)
        self._version += 1
        self.watched.watch(made, self)

    def _copy_of(self, module: nn.Module) -> _Copy | None:
        found = self._copies.get(id(module))
        return found if found is not None and found.module() is module else None

    def _forget(self, identity: int) -> Callable[[Any], None]:
        def forget(gone: Any) -> None:
            found = self._copies.get(identity)
            if found is not None and found.module is gone:
                del self._copies[identity]

        return forget

    # --- calls ----------------------------------------------------------------------------------------------------

    def begins(
        self, mode: OpMode, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[], None] | None:
        """A module that was copied, or has refused to be, is about to be called."""
        if id(module) in mode.inside:
            if mode.refused:
                self._see_refused(mode, module)
            return None
        copy = self._copy_of(module)
        if copy is None:
            return None
        if copy.version != self._version:
            self._prepare(copy, module)
        if not copy.foreign and not copy.all_refused:
            return None
        before = (mode.foreign, mode.inside, mode.refused)
        given = _given(itertools.chain(args, kwargs.values()))
        foreign = copy.foreign
        if not foreign.keys().isdisjoint(given):
            foreign = {number: each for number, each in foreign.items() if number not in given}
        mode.foreign = {**mode.foreign, **foreign} if mode.foreign else foreign
        mode.inside = mode.inside | copy.inside if mode.inside else copy.inside
        mode.refused = {**mode.refused, **{id(each.child()): (each, copy) for each in copy.all_refused}}

        def ends() -> None:
            mode.foreign, mode.inside, mode.refused = before

        return ends

    def _prepare(self, copy: _Copy, module: nn.Module) -> None:
        """Collects the tensors that must not be read within `module`: those that its own ones were copied from."""
        copy.version, copy.foreign, copy.all_refused = self._version, {}, []
        for prefix, inner in module.named_modules():
            known = self._copy_of(inner)
            if known is None:
                continue
            copy.all_refused += known.refused
            for name, originals in known.tensors.items():
                for reference in originals:
                    tensor = reference()
                    if tensor is not None:
                        full = f"{prefix}.{name}" if prefix else name
                        copy.foreign[id(tensor)] = Foreign(reference, full, copy.copied, copy.module)
        for own in itertools.chain(module.parameters(), module.buffers()):
            copy.foreign.pop(id(own), None)
        copy.inside = frozenset(map(id, module.modules()))

    # --- reads ----------------------------------------------------------------------------------------------------

    def read(self, foreign: Foreign, tensor: Tensor, site: int) -> None:
        """An operation within the forward of a copy reads a tensor that has the number of one of its original's."""
        module = foreign.module()
        if foreign.tensor() is not tensor or module is None or not site:
            return
        if any(tensor is own for own in itertools.chain(module.parameters(), module.buffers())):
            return  # it was given to the copy since, for good or for this call
        self._tell(f"`{foreign.name}`", foreign.copied, site, tensor.nbytes)

    def _see_refused(self, mode: OpMode, module: nn.Module) -> None:
        """A submodule that original and copy share is called by the copy: is it trained, and the copy is not?"""
        refused, copy = mode.refused.get(id(module), (None, None))
        whole = copy.module() if copy is not None else None
        if refused is None or copy is None or whole is None or refused.child() is not module:
            return
        if self._steps() <= refused.step:
            return
        trained = {
            id(p) for each in self._optimizers() if isinstance(each, Optimizer) for p in _parameters_of(each)
        }
        shared = set(map(id, module.parameters()))
        own = set(map(id, whole.parameters())) - shared
        if shared & trained and own and not own & trained:
            size = sum(p.nbytes for p in module.parameters())
            self._tell(
                f"`{type(module).__name__}`, which refuses to be copied", copy.copied, self._sites.here(), size
            )

    def _tell(self, what: str, copied: int, site: int, size: int) -> None:
        self._findings.add(
            "TC108",
            f"a copied module computes with what belongs to the original: {what}",
            [("copied here", copied), ("the copy reads the original's tensor here", site)],
            fix=_FIX,
            size=size,
        )

    def clear(self) -> None:
        """Lets go of everything."""
        self._copies.clear()


def _parameters_of(optimizer: Optimizer) -> Iterable[Tensor]:
    return (p for group in optimizer.param_groups for p in group["params"])


def _given(values: Iterable[Any]) -> set[int]:
    """The tensors that a call is given, those of modules too."""
    found: set[int] = set()
    for value in values:
        if isinstance(value, Tensor):
            found.add(id(value))
        elif isinstance(value, nn.Module):
            found.update(map(id, itertools.chain(value.parameters(), value.buffers())))
        elif isinstance(value, (list, tuple)):
            found |= _given(value)
        elif isinstance(value, dict):
            found |= _given(value.values())
    return found
