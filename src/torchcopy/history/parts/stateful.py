"""Anything with `state_dict` and `load_state_dict`: schedulers, gradient scalers, data loaders."""

from __future__ import annotations

from typing import Any, ClassVar

from ...copying.deep_copy import copy
from .part import Kind, Load, Part, RestorePlan


class StatefulPart(Part):
    """An object that reads and sets its state by its own code, which gets a copy that nobody else has."""

    kind: ClassVar[Kind] = "stateful"

    def state(self) -> Any:
        """What its `state_dict()` returns."""
        return self.target.state_dict()

    def plan(self, saved: Any) -> RestorePlan:
        """One call of its `load_state_dict`."""
        before = copy(self.target.state_dict(), on_escape="ignore")
        return RestorePlan(
            loads=[
                Load(
                    self.name,
                    lambda: self._load(saved),
                    lambda: self.target.load_state_dict(before),
                )
            ]
        )

    def _load(self, saved: Any) -> None:
        self.target.load_state_dict(copy(saved, on_escape="ignore"))
        self.target.state_dict()  # torchdata's loaders draw random numbers at their next use: let it be now
