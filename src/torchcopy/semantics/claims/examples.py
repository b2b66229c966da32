"""Programs and checks that several articles have a claim about."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..catalogue import CopyMethod, find_method
from .checks import both, gives, same_facts
from .records import Check


def quoted_device() -> str:
    """Where examples that the article ran on CUDA are run here."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def elsewhere() -> str:
    """A device that is not the CPU; `meta`, which keeps no values, where there is no other."""
    return "cuda" if torch.cuda.is_available() else "meta"


def warning_text() -> str:
    """What `torch.tensor(t)` warns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.tensor(torch.ones(1))
    return str(caught[0].message) if caught else "no warning"


class _Tag:
    """Something that a weak reference can point at."""


def nodes_recorded() -> Mapping[str, object]:
    """What both orders of `clone` and `detach` leave in the graph."""
    t = torch.ones(3, requires_grad=True) * 2
    clone = t.clone()
    node: Any = clone.grad_fn
    tag = _Tag()
    node.metadata["tag"] = tag  # lives as long as the node
    alive = weakref.ref(tag)
    name = node.name()
    copy = clone.detach()
    del clone, node, tag
    return {
        "node that `clone()` records": name,
        "node that `detach().clone()` records": str(t.detach().clone().grad_fn),
        "`clone().detach()` keeps the node": alive() is not None,
        "`grad_fn` of what `clone().detach()` returns": str(copy.grad_fn),
    }


def graph_of_a_clone() -> Mapping[str, object]:
    """How many nodes a clone adds to a graph of many, and whether it refers to the same ones."""
    y = torch.ones(1, requires_grad=True)
    for _ in range(50):
        y = y * 2
    z = y.clone()
    before, after = _nodes(y), _nodes(z)
    return {
        "the clone's graph is a copy": not before <= after,
        "nodes in the graph": len(before),
        "nodes that `clone()` adds": len(after - before),
    }


def _nodes(t: Tensor) -> set[object]:
    seen: set[object] = set()
    waiting: list[object] = [t.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [next_node for next_node, _ in getattr(node, "next_functions", ())]
    return seen


class _Subclass(Tensor):
    """A tensor of a type of its own."""


def _beyond_plain_tensors(call: Callable[[Tensor], Tensor]) -> Mapping[str, object]:
    """How `call` compares with `t.clone().detach()` where a tensor or its surroundings are less plain."""
    t = torch.ones(2)
    special = t.as_subclass(_Subclass)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.device("meta"):
            same_place = call(t).device == t.clone().detach().device
        same_type = type(call(special)) is type(special.clone().detach())
    return {_PLACE: same_place, _TYPE: same_type}


_PLACE, _TYPE = "same device where another default device is set", "same type for a subclass of `Tensor`"


def same_as_clone_detach(method: str, other: str | CopyMethod = "clone_detach") -> Check:
    """A check that a method does the same as a detached clone, on plain tensors and beyond."""
    beyond = functools.partial(_beyond_plain_tensors, lambda t: find_method(method).run(t))
    return both(same_facts(method, other), gives(beyond, {_PLACE: True, _TYPE: True}))


GRAD_ON = CopyMethod(
    "clone_detach_requires_grad_",
    "t.clone().detach().requires_grad_(True)",
    lambda t: t.clone().detach().requires_grad_(True),
)
