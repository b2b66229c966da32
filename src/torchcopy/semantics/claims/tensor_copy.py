"""The Korean article on seven ways to copy a tensor: its table, cell by cell, and what it says beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from . import reproductions
from .checks import (
    FOLLOWS_SOURCE,
    Answer,
    Containing,
    gives,
    outcome,
    probed,
)
from .examples import GRAD_ON, graph_of_a_clone, same_as_clone_detach, warning_text
from .records import Article, Claim
from .timed import takes

ARTICLE = Article("tensor-copy", "[PyTorch] Tensor Copy", "Korean")


# --- the table -----------------------------------------------------------------------------------------------

# Row, methods of the catalogue, requires_grad as the source's, in the graph, memory shared.
_TABLE: tuple[tuple[str, tuple[str, ...], bool, bool, bool], ...] = (
    ("copy_", ("empty_like_copy_",), True, True, False),
    (".data", ("data",), False, False, True),
    ("detach", ("detach",), False, False, True),
    ("clone", ("clone",), True, True, False),
    ("clone + detach", ("clone_detach", "detach_clone"), False, False, False),
    ("tensor", ("tensor",), False, False, False),
    ("new_tensor", ("new_tensor",), False, False, False),
)


def _cells() -> Iterator[Claim]:
    for row, methods, follows, graph, shared in _TABLE:
        name = row.strip("._").replace(" + ", "-").replace("_", "-")
        words = "as the source's" if follows else "`False`"
        requires: Answer = FOLLOWS_SOURCE if follows else False
        yield Claim(
            f"tensor-copy/{name}-requires-grad",
            f"Table, row `{row}`: `requires_grad` of the result is {words}.",
            probed(methods, {"requires_grad": requires}),
        )
        place: dict[str, Answer] = {"graph": True} if graph else {"graph": False, "is_leaf": True}
        yield Claim(
            f"tensor-copy/{name}-graph",
            f"Table, row `{row}`: the result is {'in the graph of the source' if graph else 'a leaf of its own'}.",
            probed(methods, place, on=("non_leaf", "leaf", "parameter")),
        )
        yield Claim(
            f"tensor-copy/{name}-memory",
            f"Table, row `{row}`: memory is {'' if shared else 'not '}shared.",
            probed(methods, {"shares_memory": shared}),
        )


# --- programs ------------------------------------------------------------------------------------------------


def _written(view: str, value: float = 0.0) -> Mapping[str, object]:
    """`z = x * x + y`, then a write through a view of `x`, then the backward pass."""
    x = torch.tensor([1.0], requires_grad=True)
    y = torch.tensor([1.0], requires_grad=True)
    z = x * x + y
    x_copy: Tensor = getattr(x, view) if view == "data" else x.detach()
    if view == "numpy":
        x_copy.numpy()[0] = value
    else:
        x_copy.fill_(value)
    backward = outcome(z.backward)
    return {
        "`z.backward()`": backward,
        "`x.grad` (right is 2)": "None" if x.grad is None else str(x.grad),
        "`y.grad`": "None" if y.grad is None else str(y.grad),
    }


def _data_zeroed() -> Mapping[str, object]:
    return _written("data")


def _data_set_to_five() -> Mapping[str, object]:
    return _written("data", 5.0)


def _detach_zeroed() -> Mapping[str, object]:
    return _written("detach")


def _detach_both_ways() -> Mapping[str, object]:
    by_torch, by_numpy = _written("detach"), _written("numpy")
    return {
        "`backward` after a write by `fill_`": by_torch["`z.backward()`"],
        "`backward` after a write through `.numpy()`": by_numpy["`z.backward()`"],
        "`x.grad` then (right is 2)": by_numpy["`x.grad` (right is 2)"],
    }


def _recommended() -> Mapping[str, object]:
    return {"the warning of `torch.tensor(t)`": warning_text()}


def _as_written() -> Mapping[str, object]:
    t = torch.ones(1)
    return {
        "`t.clone().detach().requires_grad(True)`": outcome(lambda: t.clone().detach().requires_grad(True)),  # type: ignore[operator]
        "`t.clone().detach().requires_grad_(True)`": outcome(lambda: t.clone().detach().requires_grad_(True)),
    }


def _function_of_torch() -> Mapping[str, object]:
    return {
        "`torch` has a function `new_tensor`": hasattr(torch, "new_tensor"),
        "tensors have a method `new_tensor`": hasattr(Tensor, "new_tensor"),
    }


# --- claims ---------------------------------------------------------------------------------------------------

CLAIMS = (
    *_cells(),
    Claim(
        "tensor-copy/data-wrong-gradient",
        "After a write through `.data`, `backward()` is silently wrong: `x.grad` is 0, `y.grad` 1.",
        gives(
            _data_zeroed,
            {"`z.backward()`": "no error", "`x.grad` (right is 2)": "tensor([0.])", "`y.grad`": "tensor([1.])"},
        ),
    ),
    Claim(
        "tensor-copy/data-new-value-used",
        "`backward()` then computes with the value written: 5 in place of 1 makes `x.grad` 10.",
        gives(_data_set_to_five, {"`z.backward()`": "no error", "`x.grad` (right is 2)": "tensor([10.])"}),
    ),
    Claim(
        "tensor-copy/data-untracked",
        "Autograd does not notice a write through `.data`.",
        probed("data", {"shares_version_counter": False}),
    ),
    Claim(
        "tensor-copy/detach-raises",
        "After the same write through `detach()`, `backward()` raises a `RuntimeError`.",
        gives(_detach_zeroed, {"`z.backward()`": Containing("RuntimeError")}),
    ),
    Claim(
        "tensor-copy/detach-tracked",
        "Autograd notices a write through `detach()`.",
        probed("detach", {"shares_version_counter": True}),
    ),
    Claim(
        "tensor-copy/detach-guarantees-gradient",
        "`detach()` guarantees the right gradient: a write through it never passes unnoticed.",
        gives(
            _detach_both_ways,
            {
                "`backward` after a write by `fill_`": Containing("RuntimeError"),
                "`backward` after a write through `.numpy()`": Containing("RuntimeError"),
            },
            also=("`x.grad` then (right is 2)",),
        ),
        reproductions.NUMPY_WRITE,
    ),
    Claim(
        "tensor-copy/clone-detach-recommended",
        "`clone` together with `detach` is the recommended way to copy a tensor.",
        gives(_recommended, {"the warning of `torch.tensor(t)`": Containing("sourceTensor.detach().clone()")}),
    ),
    Claim(
        "tensor-copy/tensor-equals-clone-detach",
        "`torch.tensor(t)` is the same as `t.clone().detach()`.",
        same_as_clone_detach("tensor"),
        reproductions.SUBCLASS_LOST,
    ),
    Claim(
        "tensor-copy/tensor-grad-equals",
        "`torch.tensor(t, requires_grad=True)` is the same as a detached clone with `requires_grad` switched on.",
        same_as_clone_detach("tensor_requires_grad", GRAD_ON),
        reproductions.SUBCLASS_LOST,
    ),
    Claim(
        "tensor-copy/new-tensor-equals-clone-detach",
        "`x.new_tensor(x)` is the same as `x.clone().detach()`.",
        same_as_clone_detach("new_tensor"),
    ),
    Claim(
        "tensor-copy/new-tensor-grad-equals",
        "`x.new_tensor(x, requires_grad=True)` is the same as a detached clone with `requires_grad` switched on.",
        same_as_clone_detach("new_tensor_requires_grad", GRAD_ON),
    ),
    Claim(
        "tensor-copy/requires-grad-called",
        "`.requires_grad(True)` is how it is switched on.",
        gives(
            _as_written,
            {"`t.clone().detach().requires_grad(True)`": "no error"},
            also=("`t.clone().detach().requires_grad_(True)`",),
        ),
        reproductions.NOT_CALLABLE,
    ),
    Claim(
        "tensor-copy/torch-new-tensor",
        "`new_tensor` is a function of `torch`, called as `torch.new_tensor(x)`.",
        gives(
            _function_of_torch,
            {"`torch` has a function `new_tensor`": True},
            also=("tensors have a method `new_tensor`",),
        ),
        reproductions.NO_FUNCTION,
    ),
    Claim(
        "tensor-copy/detach-first-faster",
        "`detach().clone()` is faster than `clone().detach()`.",
        takes((("clone_detach", "detach_clone"),), "slower", source="non_leaf"),
        reproductions.timing("t.clone().detach()", "t.detach().clone()", numel="2**20", requires_grad=True),
        timing=True,
    ),
    Claim(
        "tensor-copy/graph-copied",
        "It is slower to clone first because the computational graph is copied then, for nothing.",
        gives(
            graph_of_a_clone,
            {"the clone's graph is a copy": True},
            also=("nodes in the graph", "nodes that `clone()` adds"),
        ),
        reproductions.CLONE_ADDS_A_NODE,
    ),
)
