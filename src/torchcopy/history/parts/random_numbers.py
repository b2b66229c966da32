"""Random numbers: the generators of a program, and those that everybody shares."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from .part import Kind, Load, Part, RestorePlan

RNG = "rng"
"""The name of the part of the shared generators."""


class GeneratorPart(Part):
    """A `torch.Generator`, a `numpy.random.Generator` or `RandomState`, a `random.Random`."""

    kind: ClassVar[Kind] = "generator"

    def state(self) -> Any:
        """What the generator goes on from."""
        return _state_of(self.target)

    def plan(self, saved: Any) -> RestorePlan:
        """One call."""
        before = _state_of(self.target)
        return RestorePlan(
            loads=[Load(self.name, lambda: _set(self.target, saved), lambda: _set(self.target, before))]
        )


def is_generator(x: object) -> bool:
    """Whether `x` makes random numbers and has a state that can be read and set."""
    return isinstance(x, (torch.Generator, np.random.Generator, np.random.RandomState, random.Random))


def _state_of(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    return generator.getstate()


def _set(generator: Any, state: Any) -> None:
    if isinstance(generator, torch.Generator):
        generator.set_state(state.clone())
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        generator.setstate(state)


class SharedRandomPart(Part):
    """The generators that every program shares: PyTorch's, on every device, NumPy's and Python's."""

    kind: ClassVar[Kind] = "rng"

    def state(self) -> dict[str, Any]:
        """The state of each generator that has been used."""
        state: dict[str, Any] = {
            "torch": torch.get_rng_state().numpy(),  # an array: small, and always another one
            "numpy": np.random.get_state(legacy=False),
            "python": random.getstate(),
        }
        if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            state["cuda"] = torch.cuda.get_rng_state_all()
        if torch.backends.mps.is_available():
            state["mps"] = torch.mps.get_rng_state()
        return state

    def plan(self, saved: Any) -> RestorePlan:
        """One call each; GPUs that are not there are passed over, as the numbers of those that are stay right."""
        before = self.state()
        plan = RestorePlan()
        for name, setter in _SETTERS.items():
            if name in saved and name in before:
                plan.loads.append(
                    Load(
                        f"{self.name}[{name!r}]",
                        lambda setter=setter, name=name: setter(saved[name]),  # type: ignore[misc]
                        lambda setter=setter, name=name: setter(before[name]),  # type: ignore[misc]
                    )
                )
        return plan


def _set_cuda(states: list[Tensor]) -> None:
    for device, state in zip(range(torch.cuda.device_count()), states, strict=False):
        torch.cuda.set_rng_state(state.cpu(), device)


_SETTERS: dict[str, Callable[[Any], object]] = {
    "torch": lambda state: torch.set_rng_state(torch.from_numpy(state)),
    "numpy": np.random.set_state,
    "python": random.setstate,
    "cuda": _set_cuda,
    "mps": lambda state: torch.mps.set_rng_state(state.cpu()),
}
