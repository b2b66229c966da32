"""The mode that sees every operation of one thread: what is written, copied, read, and which line asked for it."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor
from torch.autograd.graph import increment_version
from torch.utils._python_dispatch import TorchDispatchMode

from ... import _torch_private
from ..._tensors import has_storage
from ..naming.node_lines import NodeLines
from ..records import Kind
from .op_plans import OpPlan, plan_for, statistics_of, tensors_in, written_by

if TYPE_CHECKING:
    from ..auditor import Auditor
    from ..detectors.copied_modules import Foreign, Refusal

_next_node = _torch_private.next_node_number
_frame = sys._getframe


class _LastCopy:
    """The copy that was made last, as long as nothing but views of it were made since."""

    __slots__ = ("is_lossy", "kind", "made", "seconds", "site", "size", "storage", "weak")

    def __init__(self, made: Tensor, kind: Kind, site: int, seconds: float) -> None:
        self.kind, self.is_lossy = kind, False
        self.made = weakref.ref(made)
        self.storage = _torch_private.storage_id(made)
        self.weak = _torch_private.weak_storages((made,))[0]
        self.site, self.size, self.seconds = site, made.nbytes, seconds

    def is_gone(self) -> bool:
        """Whether its memory has been freed."""
        return _torch_private.expired_storages((self.weak,))[0]

    def forget(self) -> None:
        """Frees the weak reference."""
        _torch_private.free_weak_storages((self.weak,))


class OpMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches the operations of one thread.

    Attributes:
        within: the call that a patched function tells of itself: what it copies is not told twice.
        saved: while something is pickled: bytes of the storages that were, by their numbers.
        lines: which line made which node.
        foreign: while a copied module runs: tensors of the one that it was copied from, by identity.
        inside: the submodules of the copy that runs, by identity.
        refused: those of them that are the original's.
    """

    def __init__(self, auditor: Auditor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._auditor = auditor
        self._plans: dict[int, OpPlan] = auditor.plans
        self._aliases = auditor.kept_states.aliases
        self._shared = auditor.numpy_sharing.reads
        self._pending = auditor.pending_copies
        self._watched = auditor.shared_values.tensors.by_id
        self._sites = auditor.sites
        self._next = _next_node()
        self._last: _LastCopy | None = None
        self._rewritten: tuple[_LastCopy, int] | None = None
        self.lines = NodeLines(auditor.made_many_nodes)
        self._is_entered = False
        self._detached = 0
        self.within = ""
        self.saved: dict[int, int] | None = None
        self.foreign: dict[int, Foreign] = {}
        self.inside: frozenset[int] = frozenset()
        self.refused: dict[int, Refusal] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # what PyTorch puts around the method otherwise takes ten times as long as the method

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled functions run compiled: what is inside of them is not seen."""
        return True

    def __enter__(self) -> Self:
        """Watches from now on."""
        self._is_entered = True
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def leave(self) -> None:
        """Watches no more."""
        if self._is_entered:
            self._is_entered = False
            _torch_private.exit_mode(self)

    def leave_if_innermost(self) -> None:
        """Watches no more, unless the program has entered modes since, which have to be left first."""
        if _torch_private.innermost_mode() is self:
            self.leave()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operation as it would run without the mode."""
        del types
        plan = self._plans.get(id(func))
        if plan is None:
            plan = self._plans[id(func)] = plan_for(func)
        if not plan.is_quick:
            return self._watch(plan, func, args, kwargs or {})
        if self._last is not None or self._rewritten is not None:
            self._settle(plan, args)
        if self._aliases and not plan.is_view:
            self._see_reads(args)
        if (self._shared or self._pending) and not plan.is_view:
            self._see_memory(plan, args, {}, _next_node())
        if self._watched or self.foreign:
            self._see_watched(plan, args, [])
        out = plan.call(*args, **kwargs) if kwargs else plan.call(*args)
        try:
            number = _next_node()
            if number != self._next:
                self.lines.made(self._next, self._sites.of(_frame().f_back))
                self._next = number
            if plan.is_view and self._auditor.is_on:
                self._detached = id(out) if plan.name == "aten::detach" else 0
                self._see_view(plan, args, out)
        except RecursionError:  # the operation is done, and the program goes on as it would without the audit
            self._forget_last()
        return out

    # --- operations that write, copy, or ask for a number ---------------------------------------------------------

    def _watch(self, plan: OpPlan, func: Any, args: Any, kwargs: Any) -> Any:
        auditor = self._auditor
        if plan.is_composite:
            with self:
                return func.decompose(*args, **kwargs)
        if not auditor.is_on:
            return self._passed_on(plan, func, args, kwargs)
        if self._rewritten is not None or (self._last is not None and plan.copy is None):
            self._settle(plan, args)
        site = self.site(_frame().f_back)
        self.saw_nodes(site)
        number = self._next
        targets = written_by(plan, args, kwargs) if plan.writes or plan.writes_named else []
        if self._aliases:
            self._see_reads(args, targets)
        if self._watched or self.foreign:
            self._see_watched(plan, args, targets)
        if self._shared or self._pending:
            filled = targets if plan.copy == "into" or plan.writes_named else ()
            self._see_memory(plan, args, kwargs, number, filled)
        start = perf_counter()
        version = _version(targets) if plan.moves_no_version else -1
        out = plan.call(*args, **kwargs)
        end = perf_counter()
        _move_versions(targets, version)
        try:
            if targets:
                own_node = torch.is_grad_enabled() and targets[0].requires_grad
                auditor.written(targets, site, number - 1 if own_node else number, plan)
            if plan.has_statistics:
                auditor.ran_batch_norm(*statistics_of(plan, args), site, number)
            if plan.copy is not None:
                with _torch_private.without_function_modes():
                    self._copied(plan, args, out, site, start, end)
                if auditor.streams is not None:
                    auditor.streams.copied(plan, args, kwargs, out, site)
            elif plan.reads_scalar:
                if self._pending and auditor.streams is not None:
                    auditor.streams.has_asked(args[0])
                auditor.waited(site, args[0])
        except RecursionError:
            self._forget_last()
        return out

    def _passed_on(self, plan: OpPlan, func: Any, args: Any, kwargs: Any) -> Any:
        """Runs an operation that is not looked at any more."""
        targets = written_by(plan, args, kwargs) if plan.moves_no_version else []
        version = _version(targets)
        out = func(*args, **kwargs)
        _move_versions(targets, version)
        return out

    def saw_nodes(self, site: int) -> None:
        """Nodes that were made since the last operation are this line's."""
        number = _next_node()
        if number != self._next:
            self.lines.made(self._next, site)
            self._next = number

    def site(self, frame: Any) -> int:
        """The line that an operation belongs to: in a backward, that of the forward."""
        node = _torch_private.running_node()
        if node is not None:
            number = _torch_private.node_number(node)
            line = self._auditor.line_of_node(number)
            if line:
                return self._sites.in_backward(line)
        return self._sites.of(frame)

    def _copied(self, plan: OpPlan, args: Any, out: Any, site: int, start: float, end: float) -> None:
        auditor, seconds = self._auditor, end - start
        at = start - auditor.started
        if plan.copy == "into":
            sources = args[1] if isinstance(args[1], Tensor) else None
            if self._last is not None and sources is not None and self._is_last(sources):
                self._rewritten = (self._last, site)
                self._last.is_lossy = False
                self._last = None
            else:
                self._drop_last()
            size = sum(t.nbytes for t in tensors_in(args[:1]) if _is_plain(t))
            auditor.copies.wrote(site, "into", size, seconds, at)
            return
        source = args[0]
        if self.within or not (isinstance(out, Tensor) and _is_plain(source) and _is_plain(out)):
            self._drop_last()
            return
        kind = kind_of_copy(source, out)
        if self._last is not None and self._is_last(source):
            self._rewritten = (self._last, site)
            self._last.is_lossy = self._last.kind == kind == "conversion"  # `x.half().float()` rounds
            self._last = None
        else:
            self._drop_last()
        with auditor.lock:
            auditor.copies.copied(site, kind, source, out, seconds, at, detached=id(source) == self._detached)
            auditor.storages.sweep_if_due()
        self._last = _LastCopy(out, kind, site, seconds)

    # --- what follows upon a copy ---------------------------------------------------------------------------------

    def _is_last(self, tensor: Tensor) -> bool:
        made = self._last.made() if self._last is not None else None
        if made is tensor:
            return True
        if not _is_plain(tensor) or self._last is None:
            return False
        return _torch_private.storage_id(tensor) == self._last.storage

    def _forget_last(self) -> None:
        """Drops what was to be settled: what followed upon it was not seen."""
        if self._rewritten is not None:
            self._rewritten[0].forget()
            self._rewritten = None
        self._drop_last()

    def _drop_last(self) -> None:
        if self._last is not None:
            self._last.forget()
            self._last = None

    def _settle(self, plan: OpPlan, args: Any) -> None:
        """Something follows upon a copy: was the copy made only for what followed upon it before?"""
        auditor = self._auditor
        if self._rewritten is not None:
            first, second = self._rewritten
            self._rewritten = None
            if first.is_gone() and not first.is_lossy:
                auditor.waste.copied_twice(first.site, second, first.size, first.seconds)
            first.forget()
        last = self._last
        if last is None:
            return
        if plan.name == "aten::detach" and args[0].grad_fn is not None and args[0] is last.made():
            auditor.waste.cloned_and_detached(self._sites.of(_frame().f_back), last.size)
        elif not plan.is_view:
            self._drop_last()

    def finish(self) -> None:
        """Settles what nothing followed upon."""
        self._settle(_NOTHING, ())
        self._drop_last()

    # --- what a state_dict has handed out, and small views --------------------------------------------------------

    def _see_reads(self, args: Any, targets: list[Tensor] | None = None) -> None:
        aliases = self._aliases
        if self.within == "load_state_dict":
            return
        for t in tensors_in(args):
            if id(t) in aliases and not (targets and any(t is each for each in targets)):
                self._auditor.kept_states.read(t, self._sites.of(_frame().f_back))

    def _see_memory(self, plan: OpPlan, args: Any, kwargs: Any, number: int, filled: Sequence[Tensor] = ()) -> None:
        """Looks whether an operation reads memory that others may write to; `filled` it does not read."""
        if self._pending and self._auditor.streams is not None and plan.name != "aten::is_pinned":
            read = [t for t in tensors_in(args) if not any(t is each for each in filled)]
            self._auditor.streams.sees(plan, args, kwargs, read, _frame().f_back or _frame())
        tensors = list(tensors_in(args)) if self._shared else []
        try:
            storages = _torch_private.storage_ids(tensors)
        except RuntimeError:  # sparse tensors and the like have none
            tensors = [t for t in tensors if has_storage(t)]
            storages = _torch_private.storage_ids(tensors)
        if self._shared.isdisjoint(storages) or not self._auditor.is_on:
            return
        for t, storage in zip(tensors, storages, strict=True):
            if storage in self._shared and not any(t is each for each in filled):
                self._auditor.memory_read(t, storage, number, _frame().f_back or _frame())

    def _see_watched(self, plan: OpPlan, args: Any, targets: list[Tensor]) -> None:
        auditor = self._auditor
        if not self.within and auditor.is_on:
            with auditor.lock:
                auditor.shared_values.read(plan, args, targets, self.foreign)

    def _see_view(self, plan: OpPlan, args: Any, out: Any) -> None:
        base = args[0] if args else None
        if not isinstance(base, Tensor):
            return
        views = (
            (out,) if isinstance(out, Tensor) else tuple(tensors_in(out)) if isinstance(out, (list, tuple)) else ()
        )
        if self._aliases and id(base) in self._aliases:
            self._auditor.kept_states.viewed(base, views)
        idioms = self._auditor.shared_values.data_attribute
        if idioms.is_on:
            idioms.viewed(base, views, is_detached=plan.name == "aten::detach")
        if plan.name in _PARTS and type(base) is Tensor:
            with _torch_private.without_function_modes():
                if _is_plain(base):
                    pinned = self._auditor.pinned_bases
                    for view in views:
                        if 16 * view.nbytes <= base.nbytes:
                            pinned.viewed(base, view, self._sites.of(_frame().f_back))


_PLAIN = frozenset({Tensor, torch.nn.Parameter})
_PARTS = frozenset(
    f"aten::{name}"
    for name in "slice select narrow split split_with_sizes unbind as_strided diagonal chunk unfold".split()
)
_NOTHING = OpPlan("")


def _version(targets: list[Tensor]) -> int:
    return targets[0]._version if targets and not targets[0].is_inference() else -1


def _move_versions(targets: list[Tensor], before: int) -> None:
    """Does what `torch._foreach_*_` do to version counters, and leave out under a mode (seen in torch 2.13)."""
    if before >= 0 and targets[0]._version == before:
        increment_version([t for t in targets if not t.is_inference()])


def _is_plain(t: Tensor) -> bool:
    return (
        type(t) in _PLAIN
        and not t.is_nested
        and t.layout is torch.strided
        and t.device.type != "meta"
        and has_storage(t)
    )


def kind_of_copy(source: Tensor, made: Tensor) -> Kind:
    """What a copy into new memory changes."""
    if source.device != made.device:
        return "transfer"
    if source.dtype != made.dtype:
        return "conversion"
    return "clone" if source.stride() == made.stride() or source.numel() < 2 else "layout"
