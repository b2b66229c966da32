"""Advice for one tensor that stays where and what it is: a method of the catalogue, probed before it is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from ..._errors import MeasurementError
from ..catalogue import CopyMethod, find_method, find_methods
from ..probe import SourceFacts, probe
from ..sources import build_source
from .records import Advice, Graph, Memory, Needs, Warned, timed

_CHOICES: dict[tuple[Graph, Memory], str] = {
    ("detach", "own"): "detach_clone",
    ("detach", "share"): "detach",
    ("detach", "lazy"): "detach_lazy_clone",
    ("keep", "own"): "clone",
    ("keep", "share"): "view",
    ("keep", "lazy"): "lazy_clone",
}
_FOR_MANY = ("foreach_copy_", "state_dict_load")
"""Methods for lists and modules: they can copy one tensor, but nobody would write that."""

LAZY_NOTE = (
    "`torch._lazy_clone` is private API. A raw pointer taken before (an old `numpy()` view, a DLPack capsule, a "
    "captured CUDA graph) writes into both, and two threads must not write two lazy clones of one tensor at the "
    "same moment (torch 2.13: it can hang)."
)


def fulfils(facts: SourceFacts, graph: Graph, memory: Memory) -> bool:
    """Whether what was probed is what is needed: values, graph and memory right, the source left alone."""
    in_graph = facts.graph is True and facts.gradient_correct is True
    return (
        facts.error is None
        and facts.values_kept is True
        and facts.dtype_kept is True
        and facts.source_changed is False
        and (in_graph if graph == "keep" else not facts.requires_grad)
        and facts.lazy is (memory == "lazy")
        and facts.shares_memory is (memory == "share")
    )


def advise_tensor(needs: Needs) -> Advice:
    """The method chosen for these needs, if the probe sees it do what is needed; else the next that does."""
    fitting = [method for method in find_methods() if fulfils(probe(method).main, needs.graph, needs.memory)]
    chosen = find_method(_CHOICES[needs.graph, needs.memory])
    notes = [LAZY_NOTE] if needs.memory == "lazy" else []
    if chosen not in fitting:
        # Only where the installed torch differs from the ones the choice was made for.
        if not fitting:
            return _copied_at_once(needs)
        notes.append(f"`{chosen.code}` was probed and does not do this on torch {torch.__version__}.")
        chosen = fitting[0]
    source = build_source("non_leaf", numel=needs.numel, device=torch.device("cpu"), dtype=torch.float32).tensor
    # To avoid, and yet of the same effect: copies that are merely slower. What shares memory is the same speed.
    shown = (None, chosen.id) if needs.memory == "own" else (None,)
    same = [m for m in fitting if m.prefer in shown and m.id not in _FOR_MANY]
    if needs.memory == "lazy":
        same.append(find_method(_CHOICES[needs.graph, "own"]))  # what the laziness saves
    calls = {method.code: _bind(method, source) for method in (chosen, *same)}
    avoid = tuple(Warned(m.code, m.why) for m in find_methods() if m.prefer == chosen.id and m.id != "assignment")
    if needs.hot_loop and (needs.graph, needs.memory) == ("detach", "own"):
        return _into_buffer(needs, source, calls, avoid)
    if needs.hot_loop:
        notes.append("Doing it again and again changes nothing: there is no memory to use again.")
    why = chosen.purpose if needs.memory == "lazy" else chosen.why
    return Advice(needs, chosen.code, "", why, tuple(notes), avoid, timed(calls))


def _into_buffer(
    needs: Needs, source: Tensor, calls: dict[str, Callable[[], object]], avoid: tuple[Warned, ...]
) -> Advice:
    """Again and again with one shape: into a buffer that exists, whose memory is warm."""
    buffer = torch.empty_like(source, requires_grad=False)
    expression = "buffer.copy_(t.detach())"
    timings = timed({expression: lambda: buffer.copy_(source.detach()), **calls})
    fresh = timings[1]
    verdict = "less time" if fresh.ratio > 1.03 else "no less time"
    why = f"Allocates nothing; here it takes {verdict} than `{fresh.code}`, which takes {fresh.ratio:.2f}× as long."
    notes = ("The buffer is written over each time: what the last copy held is gone.",)
    setup = "buffer = torch.empty_like(t, requires_grad=False)"
    return Advice(needs, expression, setup, why, notes, avoid, timings)


def _copied_at_once(needs: Needs) -> Advice:
    if needs.memory != "lazy":
        raise MeasurementError(f"no method of the catalogue was seen to do this on torch {torch.__version__}")
    own = advise_tensor(dataclasses.replace(needs, memory="own"))
    note = f"Copy-on-write does not work on torch {torch.__version__}: this copies at once."
    return dataclasses.replace(own, needs=needs, notes=(note, *own.notes))


def _bind(method: CopyMethod, source: Tensor) -> Callable[[], object]:
    return lambda: method.run(source)
