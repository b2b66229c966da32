"""What the checks of one run share, so that nothing is measured twice."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from ..catalogue import CopyMethod, find_method
from ..probe import MethodFacts, probe
from ..sources import build_source
from ..timing import TimeRatio, time_ratio
from .records import MeasuredRatio

SMALL, MEDIUM, LARGE = 2**10, 2**14, 2**20
"""The sizes at which times are taken, in elements. The articles' own plots end at the second."""
SIZES = (SMALL, MEDIUM, LARGE)

TimedSource = Literal["no_grad", "non_leaf"]


class Measurements:
    """Facts of the probe and ratios of times, each measured when it is first asked for and kept for this run."""

    def __init__(self) -> None:
        self._facts: dict[tuple[str, str], MethodFacts] = {}
        self._ratios: dict[tuple[str, ...], MeasuredRatio] = {}

    def facts(self, method: str | CopyMethod, dtype: str = "float32") -> MethodFacts:
        """What the probe finds out about a method on the CPU."""
        entry = method if isinstance(method, CopyMethod) else find_method(method)
        key = (entry.id, dtype)
        if key not in self._facts:
            self._facts[key] = probe(entry, dtype=dtype)
        return self._facts[key]

    def ratio(self, call: str, base: str, *, numel: int, source: TimedSource = "no_grad") -> MeasuredRatio:
        """How many times as long method `call` takes as method `base`, on a float32 tensor of the CPU."""

        def measure() -> tuple[str, TimeRatio]:
            t = build_source(source, numel=numel, device=torch.device("cpu"), dtype=torch.float32).tensor
            words = elements(numel) + (", requires grad" if source == "non_leaf" else "")
            return words, _timed(
                functools.partial(methods[0].run, t),
                functools.partial(methods[1].run, t),
            )

        methods = find_method(call), find_method(base)
        return self._measured((call, base, str(numel), source), methods[0].code, methods[1].code, measure)

    def ratio_to_clone(self, code: str, call: Callable[[Tensor], object], *, numel: int) -> MeasuredRatio:
        """How many times as long any call takes as `t.detach().clone()`."""

        def measure() -> tuple[str, TimeRatio]:
            t = build_source("no_grad", numel=numel, device=torch.device("cpu"), dtype=torch.float32).tensor
            base = find_method("detach_clone").run
            return elements(numel), _timed(functools.partial(call, t), functools.partial(base, t))

        return self._measured((code, str(numel)), code, find_method("detach_clone").code, measure)

    def model_ratio(self, layers: int, width: int) -> MeasuredRatio:
        """How many times as long `copy.deepcopy` of a model takes as cloning each of its tensors."""

        def measure() -> tuple[str, TimeRatio]:
            model = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)))
            tensors = [t.detach() for t in model.state_dict().values()]
            ratio = _timed(lambda: copy.deepcopy(model), lambda: [t.clone() for t in tensors])
            return f"{layers} layers of {width}×{width}", ratio

        return self._measured(
            ("model", str(layers), str(width)), "copy.deepcopy(model)", "[t.clone() for t in tensors]", measure
        )

    def _measured(
        self, key: tuple[str, ...], call: str, base: str, measure: Callable[[], tuple[str, TimeRatio]]
    ) -> MeasuredRatio:
        if key not in self._ratios:
            source, ratio = measure()
            self._ratios[key] = MeasuredRatio(call, base, source, ratio)
        return self._ratios[key]


def elements(numel: int) -> str:
    """`2^10 elements`."""
    exponent = numel.bit_length() - 1
    return f"2^{exponent} elements" if numel == 2**exponent else f"{numel} elements"


def _timed(call: Callable[[], object], base: Callable[[], object]) -> TimeRatio:
    threads = torch.get_num_threads()
    # On one thread: where something else keeps a core busy, operations that split their work wait for it, and
    # `deepcopy` splits it at smaller sizes than `clone`, as it copies bytes instead of elements.
    torch.set_num_threads(1)
    try:
        # As in a user's program: each warning is shown once, and every further call pays for looking that up.
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("default")
            return time_ratio(call, base)
    finally:
        torch.set_num_threads(threads)
