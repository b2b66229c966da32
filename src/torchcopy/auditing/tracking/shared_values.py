"""What is looked for where tensors have two owners: TC108, TC109, and TC301 if it is asked for."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from torch import Tensor

from ... import _torch_private
from ..detectors.copied_modules import CopiedModules, Foreign
from ..detectors.data_attribute import DataAttribute
from ..detectors.second_names import SecondNames
from ..detectors.shallow_copies import ShallowCopies
from ..finding_log import FindingLog
from ..naming.sites import Sites
from ..naming.source_names import SourceNames
from ..watching.op_plans import OpPlan, tensors_in
from .storages import WatchedStorages
from .watched_objects import WatchedModules, WatchedTensors


class SharedValues:
    """The detectors that follow modules and tensors by their names, and what they have in common.

    Attributes:
        tensors: those whose reads are told; empty most of the time.
        modules: those whose calls are told.
        steps: how many optimizer steps were taken.
        watch_calls: has modules' calls told from now on.
    """

    def __init__(
        self, findings: FindingLog, sites: Sites, storages: WatchedStorages, *, wants_idioms: bool = False
    ) -> None:
        self._sites = sites
        self.tensors, self.modules = WatchedTensors(), WatchedModules(self._has_modules)
        self.steps = 0
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.watch_calls: Callable[[], None] = _nothing
        names = SourceNames()
        self.copied_modules = CopiedModules(
            findings, sites, self.modules, lambda: self.steps, lambda: self._optimizers
        )
        self.shallow_copies = ShallowCopies(findings, sites, names, storages, self.tensors, self.modules)
        self.second_names = SecondNames(findings, sites, names, self.tensors, self.modules)
        self.data_attribute = DataAttribute(findings, sites, is_on=wants_idioms)

    def _has_modules(self) -> None:
        self.watch_calls()

    def stepped(self, optimizer: Any, frame: FrameType | None, site: int) -> None:
        """An optimizer has taken a step, at the line `site`."""
        self.steps += 1
        self._optimizers.add(optimizer)
        self.second_names.stepped(optimizer, frame, site)

    def given_data(self, tensor: Tensor, value: Tensor) -> None:
        """`tensor.data = value` is about to happen."""
        if id(value) in self.tensors.by_id:
            self.second_names.given_data(tensor, value, sys._getframe(1))

    def read(self, plan: OpPlan, args: Any, targets: list[Tensor], foreign: dict[int, Foreign]) -> None:
        """An operation is about to read tensors: some are watched, or `foreign` to the module that runs."""
        watched = self.tensors.by_id
        for t in tensors_in(args):
            there = foreign.get(id(t))
            if there is not None:
                with _torch_private.outside_modes():
                    self.copied_modules.read(there, t, self._sites.of(sys._getframe(1)))
            for reader in tuple(watched.get(id(t), ())):
                reader.read(t, plan, args, targets)

    def finish(self) -> None:
        """The audit is over: reports what had to wait for that, and lets go of everything."""
        self.shallow_copies.finish()
        for each in (self.copied_modules, self.second_names, self.data_attribute, self.tensors, self.modules):
            each.clear()
        self.watch_calls = _nothing


def _nothing() -> None:
    """Nobody can be told."""
