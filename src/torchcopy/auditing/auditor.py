"""What all parts of an audit share, and what is told to them: writes, copies, steps."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterable, Sequence
from time import perf_counter
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from .. import _torch_private
from .._tensors import has_storage
from .copies import CopyLog, LiveCopy
from .detectors.kept_graphs import KeptGraphs
from .detectors.kept_states import KeptStates
from .detectors.numpy_sharing import First, NumpySharing
from .detectors.pinned_bases import PinnedBases
from .detectors.saved_values import SavedValues
from .detectors.waste import Waste
from .finding_log import FindingLog
from .naming.sites import Sites
from .tracking.shared_values import SharedValues
from .tracking.storages import WatchedStorages, Write
from .watching.device_streams import DeviceStreams
from .watching.op_mode import OpMode
from .watching.op_plans import OpPlan
from .watching.stand_ins import StandIns


class Auditor:
    """Everything that one audit knows. Its modes, one a thread, and its patches tell it what happens.

    Attributes:
        is_on: whether it still looks; False after the steps that were to be audited, and in forked children.
        started: when, in seconds of `time.perf_counter`.
        steps: how many optimizer steps were taken so far.
        last_step_at: the line of the last one.
        to_the_end: whether the program ends with the audit: what was not written until then never is.
        lock: held while a table is changed that several threads may change.
    """

    def __init__(self, first_steps: int | None = None, *, wants_idioms: bool = False) -> None:
        self.is_on = True
        self.started = perf_counter()
        self.steps = self.audited_steps = 0
        self.first_steps = first_steps
        self.to_the_end = False
        self.lock = threading.RLock()
        self.plans: dict[int, OpPlan] = {}
        self.opaque: dict[str, int] = {}
        self.sites = Sites()
        self.stand_ins = StandIns()
        self.findings = FindingLog(self.sites)
        self.storages = WatchedStorages()
        self.copies = CopyLog(self.storages)
        self.saved_values = SavedValues(self.findings, self.line_of_node, self.sites.is_gradcheck)
        self.kept_states = KeptStates(self.findings, self.storages)
        self.kept_graphs = KeptGraphs(self.findings, self.sites, self.line_of_node)
        self.pinned_bases = PinnedBases(self.findings)
        self.numpy_sharing = NumpySharing(self.findings, self.sites, self.storages, self.copies, self.saved_values)
        self.copies.is_exposed = self.numpy_sharing.is_exposed
        self.streams = DeviceStreams(self) if torch.version.cuda or torch.version.hip else None
        self.pending_copies = {} if self.streams is None else self.streams.reads.pending
        self.waste = Waste(self.findings, self.sites, self.copies, self.storages)
        self.shared_values = SharedValues(self.findings, self.sites, self.storages, wants_idioms=wants_idioms)
        self._modes: dict[int, OpMode] = {}
        self.last_step_at = 0
        self._steps_of: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    # --- threads --------------------------------------------------------------------------------------------------

    def mode(self) -> OpMode:
        """A mode for this thread."""
        made = self._modes[threading.get_ident()] = OpMode(self)
        return made

    def mode_here(self) -> OpMode | None:
        """The mode of this thread, if it has one."""
        return self._modes.get(threading.get_ident())

    def thread_ended(self, mode: OpMode) -> None:
        """A thread that was watched is over."""
        if self.is_on:
            with _torch_private.outside_modes(), self.lock:
                mode.finish()
        if self.mode_here() is mode:
            del self._modes[threading.get_ident()]

    def line_of_node(self, number: int) -> int:
        """The line that made a node of a graph, on this thread or, failing that, on another."""
        here = self.mode_here()
        if here is not None and (line := here.lines.line_of(number)):
            return line
        return next((line for mode in tuple(self._modes.values()) if (line := mode.lines.line_of(number))), 0)

    # --- what happens ---------------------------------------------------------------------------------------------

    def written(self, targets: Sequence[Tensor], site: int, number: int, plan: OpPlan) -> None:
        """An operation has written to its arguments."""
        try:
            storages = _torch_private.storage_ids(targets)
        except RuntimeError:  # sparse tensors and the like have none
            storages = _storages(targets)
        if self.shared_values.data_attribute.is_on:
            self.shared_values.data_attribute.written(targets, site)
        self.saved_values.written(storages, number, site, silent=plan.is_silent)
        if not self.storages.dependents.keys().isdisjoint(storages):
            with self.lock:
                fills = bool(plan.writes_named)
                self.storages.written(storages, Write(site, number, list(targets), plan.name, fills=fills))

    def memory_read(self, tensor: Tensor, storage: int, number: int, frame: FrameType) -> None:
        """An operation is about to read a tensor whose memory others may write to."""
        with self.lock:
            due = self.numpy_sharing.due(storage)
            if due:
                with _torch_private.outside_modes():
                    self.numpy_sharing.used(due, tensor, number, lambda: self.sites.of(frame))

    def shared(self, first: First, tensor: Tensor, array: Any, frame: FrameType) -> None:
        """An array was made of a tensor, or a tensor of an array, on the same memory."""
        with _torch_private.outside_modes(), self.lock:
            self.exposed(tensor)
            self.numpy_sharing.shared(first, tensor, array, self.sites.of(frame), frame)

    def exposed_for_good(self, tensor: Tensor) -> None:
        """A raw pointer to the memory of `tensor` was handed out."""
        with _torch_private.outside_modes(), self.lock:
            if has_storage(tensor):
                self.exposed(tensor)
                self.numpy_sharing.exposed(tensor)

    def backward_begins(self, roots: list[Tensor], inputs: list[Tensor], site: int, *, keeps_graph: bool) -> None:
        """A backward is about to run."""
        with _torch_private.outside_modes(), self.lock:
            if self.numpy_sharing.watched:
                self.numpy_sharing.before_backward()
            self.kept_graphs.backward_begins(roots, keeps_graph=keeps_graph)
            self.saved_values.before_backward(roots, inputs, site)

    def ran_batch_norm(self, statistics: list[Tensor], is_training: bool, site: int, number: int) -> None:
        """A batch norm has run: in training it writes its running statistics, in evaluation it uses them."""
        storages = _storages(statistics)
        if not is_training:
            if torch.is_grad_enabled():
                self.saved_values.use_statistics(storages)
            return
        self.saved_values.wrote_statistics(storages, number, site)
        if not self.storages.dependents.keys().isdisjoint(storages):
            with self.lock:
                self.storages.written(storages, Write(site, number, statistics))

    def given_data(self, tensor: Tensor, value: Tensor, site: int) -> None:
        """`tensor.data = value`: whatever has saved the tensor itself sees other values from now on."""
        with _torch_private.outside_modes(), self.lock:
            if has_storage(value):
                self.shared_values.given_data(tensor, value)
                number = _torch_private.next_node_number()
                self.saved_values.expose(value)
                self.saved_values.written([_torch_private.storage_id(value)], number, site, silent=True)

    def exposed(self, tensor: Tensor) -> None:
        """Something outside of PyTorch can write to the memory of `tensor` from now on: an array, a raw pointer."""
        self.saved_values.expose(tensor)
        with self.lock:
            for each in self.storages.dependents.get(_torch_private.storage_id(tensor), ()):
                if isinstance(each, LiveCopy):
                    each.decide("unknown")

    def waited(self, site: int, tensor: Tensor) -> None:
        """The program has waited for numbers of a tensor."""
        with _torch_private.without_function_modes():
            self.waste.waited(site, self.steps, on_device=tensor.device.type != "cpu")

    def ran_compiled(self, name: str) -> None:
        """A compiled function is called: what it writes is not seen."""
        self.opaque[f"compiled function {name}"] = self.opaque.get(f"compiled function {name}", 0) + 1
        self.copies.opaque_runs += 1

    def made_many_nodes(self) -> None:
        """Some thread has made twice as many nodes of graphs as when this was called last."""
        with _torch_private.outside_modes(), self.lock:
            self.kept_graphs.look_without_backward(sys._getframe(2))

    def steps_of(self, optimizer: Any) -> int:
        """How many steps an optimizer has taken in this audit."""
        return self._steps_of.get(optimizer, 0)

    def stepped(self, optimizer: Any, frame: FrameType | None) -> bool:
        """An optimizer has taken a step. Returns whether that was the last one that is audited."""
        self.steps += 1
        self._steps_of[optimizer] = self.steps_of(optimizer) + 1
        if not self.is_on:
            return False
        self.audited_steps += 1
        self.last_step_at = self.sites.of(frame)
        with _torch_private.outside_modes(), self.lock:
            self.kept_graphs.stepped(optimizer, frame)
            self.shared_values.stepped(optimizer, frame, self.last_step_at)
            if self.steps & (self.steps - 1) == 0:  # ever more rarely: 1, 2, 4, 8, …
                self.pinned_bases.look(at_step=True)
        return self.first_steps is not None and self.steps >= self.first_steps

    # --- the end --------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Looks no more; what hangs on storages lets go of them."""
        if not self.is_on:
            return
        self.is_on = False
        with _torch_private.outside_modes(), self.lock:
            for mode in tuple(self._modes.values()):
                mode.finish()
            self.kept_graphs.look(sys._getframe(), last=True)
            self.pinned_bases.look(last=True)
            self.copies.finish("redundant" if self.to_the_end else "unknown")
            self.kept_graphs.finish()
            self.kept_states.finish()
            self.numpy_sharing.finish()
            self.waste.finish(self.audited_steps)
            self.shared_values.finish()
            self.storages.clear()
            self.kept_states.clear()
            self.numpy_sharing.clear()
            if self.streams is not None:
                self.streams.clear()
            self.pinned_bases.clear()
            self._modes.clear()

    def after_fork_in_child(self) -> None:
        """A forked child is not audited: what it finds could not be told."""
        self.is_on = False
        self.lock = threading.RLock()


def _storages(tensors: Iterable[Tensor]) -> list[int]:
    found = []
    for t in tensors:
        try:
            found.append(_torch_private.storage_id(t))
        except RuntimeError:
            continue
    return found
