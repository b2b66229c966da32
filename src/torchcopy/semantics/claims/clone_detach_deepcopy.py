"""The article on `clone`, `detach` and `deepcopy` of tensors, in-place writes included."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from . import reproductions
from .checks import FOLLOWS_SOURCE, GRAD, Containing, both, gives, outcome, probed
from .examples import nodes_recorded, same_as_clone_detach
from .records import Article, Claim
from .timed import takes

ARTICLE = Article(
    "clone-detach-deepcopy", "How to copy PyTorch Tensor using clone, detach, and deepcopy?", "English"
)

_NO_LEAF = "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed"
_OVERWRITTEN = "one of the variables needed for gradient computation has been modified by an inplace operation"


# --- programs ------------------------------------------------------------------------------------------------


def _numpy() -> Mapping[str, object]:
    t = torch.zeros(2)
    array = t.numpy()
    t[0] = 1
    copied = torch.tensor(array)
    array[1] = 2
    return {
        "a write to `t` shows in `t.numpy()`": float(array[0]) == 1,
        "a write to the array shows in `t`": t[1].item() == 2,
        "a write to it shows in `torch.tensor(array)`": copied[1].item() == 2,
    }


def _clone_printed() -> Mapping[str, object]:
    x = torch.ones(5, requires_grad=True)
    return {"`print(x)`": str(x), "`print(x.clone())`": str(x.clone())}


def _sum_of_two(second: Callable[[Tensor], Tensor]) -> Tensor | None:
    x = torch.ones(5, requires_grad=True)
    y = x.clone() * 2
    z = second(x) * 3
    (y + z).sum().backward()  # type: ignore[no-untyped-call]
    return x.grad


def _sums() -> Mapping[str, object]:
    return {
        "`x.grad` by way of two clones": str(_sum_of_two(torch.clone)),
        "`x.grad` where the second is detached": str(_sum_of_two(torch.detach)),
    }


def _grad_of_a_clone() -> Mapping[str, object]:
    x = torch.ones(5, requires_grad=True)
    clone = x.clone()
    (clone * 3).sum().backward()  # type: ignore[no-untyped-call]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        grad = clone.grad
    return {
        "`x_clone.grad`": str(grad),
        "`x_clone.is_leaf`": clone.is_leaf,
        "the warning": str(caught[0].message) if caught else "none",
        "`x.grad`": str(x.grad),
    }


def _write_to(make: Callable[[Tensor], Tensor]) -> tuple[str, Tensor]:
    """`b = a**2`, a write to what `make` makes of `a`, and what the backward pass of `b` then does."""
    a = torch.ones(5, requires_grad=True)
    b = a**2
    with torch.no_grad():
        make(a).zero_()
    result = outcome(b.sum().backward)
    return (result if a.grad is None else f"{result}, {a.grad}"), a


def _writes() -> Mapping[str, object]:
    detached, a = _write_to(torch.detach)
    return {
        "backward after a write through `a.detach()`": detached,
        "`a` after that write": str(a),
        "after a write to `a.clone()`": _write_to(torch.clone)[0],
        "after a write to `a.clone().detach()`": _write_to(lambda a: a.clone().detach())[0],
        "after a write to `a.detach().clone()`": _write_to(lambda a: a.detach().clone())[0],
    }


def _write_to_used_clone() -> Mapping[str, object]:
    def backward(write_first: bool) -> str:
        x = torch.ones(3, requires_grad=True)
        c = x.clone()
        if write_first:
            c.add_(1)
        y = (c**2).sum()
        if not write_first:
            c.add_(1)
        return outcome(y.backward)

    return {
        "backward, the clone written before it was used": backward(True),
        "backward, the clone written after it was used in `c**2`": backward(False),
    }


def _write_to_leaf() -> Mapping[str, object]:
    def write(t: Tensor) -> str:
        return outcome(lambda: t.add_(1))

    def unrecorded() -> None:
        with torch.no_grad():
            torch.ones(3, requires_grad=True).add_(1)

    return {
        "`x.add_(1)` on a leaf that requires grad": write(torch.ones(3, requires_grad=True)),
        "the same under `torch.no_grad()`": outcome(unrecorded),
        "on a clone of the leaf": write(torch.ones(3, requires_grad=True).clone()),
    }


def _deepcopy_printed() -> Mapping[str, object]:
    x = torch.ones(5, requires_grad=True)
    x_deepcopy = copy.deepcopy(x)
    return {"`print(x)`": str(x), "`print(x_deepcopy)`": str(x_deepcopy)}


def _history() -> Mapping[str, object]:
    leaf = torch.ones(1, requires_grad=True)
    result = leaf * 2
    return {
        "`copy.deepcopy` of a tensor with a history": outcome(lambda: copy.deepcopy(result)),
        "of a leaf, which has none": outcome(lambda: copy.deepcopy(leaf)),
    }


def _models() -> Mapping[str, object]:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    other = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    other.load_state_dict(model.state_dict())
    twin = copy.deepcopy(model)
    x = torch.ones(1, 3)
    with torch.no_grad():
        expected = model(x)
        equal = [torch.equal(expected, m(x)) for m in (twin, other)]
        for parameter in model.parameters():
            parameter.zero_()
        kept = [torch.equal(expected, m(x)) for m in (twin, other)]
    return {
        "`nn.Module` has a `clone`": hasattr(nn.Module, "clone"),
        "`deepcopy` of a model gives the same output": equal[0],
        "and still when the original is zeroed": kept[0],
        "a new model with the `state_dict` loaded gives the same output": equal[1],
        "and still does after the original is zeroed": kept[1],
    }


# --- claims ---------------------------------------------------------------------------------------------------

_BOTH_ORDERS = ("clone_detach", "detach_clone")

CLAIMS = (
    Claim(
        "clone-detach-deepcopy/numpy-shares-memory",
        "Tensors and NumPy arrays can share memory, so that nothing has to be copied.",
        gives(
            _numpy,
            {"a write to `t` shows in `t.numpy()`": True, "a write to the array shows in `t`": True},
            also=("a write to it shows in `torch.tensor(array)`",),
        ),
    ),
    Claim(
        "clone-detach-deepcopy/clone-keeps-history",
        "A clone does not forget how its source came about: gradients flow through it.",
        probed("clone", {"graph": True, "gradient_correct": True}, on=GRAD),
    ),
    Claim(
        "clone-detach-deepcopy/clone-follows-requires-grad",
        "A clone has the `requires_grad` of its source.",
        probed("clone", {"requires_grad": FOLLOWS_SOURCE}),
    ),
    Claim(
        "clone-detach-deepcopy/clone-avoids-in-place-errors",
        "With `clone()` the errors of in-place operations are avoided.",
        gives(
            _write_to_used_clone,
            {
                "backward, the clone written before it was used": "no error",
                "backward, the clone written after it was used in `c**2`": "no error",
            },
        ),
        reproductions.USED_CLONE,
    ),
    Claim(
        "clone-detach-deepcopy/in-place-overwrites",
        "Overwriting a value that the backward pass needs is an error.",
        gives(_writes, {"backward after a write through `a.detach()`": Containing("RuntimeError")}),
    ),
    Claim(
        "clone-detach-deepcopy/leaf-write-no-error",
        "An in-place write to a leaf gives no error message.",
        gives(
            _write_to_leaf,
            {"`x.add_(1)` on a leaf that requires grad": "no error"},
            also=("the same under `torch.no_grad()`", "on a clone of the leaf"),
        ),
        reproductions.LEAF_WRITE,
    ),
    Claim(
        "clone-detach-deepcopy/clone-prints",
        "A leaf prints with `requires_grad=True`, its clone with `grad_fn=<CloneBackward0>`.",
        gives(
            _clone_printed,
            {
                "`print(x)`": "tensor([1., 1., 1., 1., 1.], requires_grad=True)",
                "`print(x.clone())`": "tensor([1., 1., 1., 1., 1.], grad_fn=<CloneBackward0>)",
            },
        ),
    ),
    Claim(
        "clone-detach-deepcopy/two-clones-sum",
        "Where `y` is twice a clone of `x` and `z` three times one, `x.grad` of their sum is 5 everywhere.",
        gives(_sums, {"`x.grad` by way of two clones": "tensor([5., 5., 5., 5., 5.])"}),
    ),
    Claim(
        "clone-detach-deepcopy/clone-grad-none",
        "The gradient of the clone itself is not to be had, as it is no leaf; the source gets one.",
        gives(
            _grad_of_a_clone,
            {"`x_clone.grad`": "None", "`x_clone.is_leaf`": False, "`x.grad`": "tensor([3., 3., 3., 3., 3.])"},
        ),
    ),
    Claim(
        "clone-detach-deepcopy/clone-grad-warns",
        "Asking for it gives a warning that `.grad` of a tensor that is not a leaf is being accessed.",
        gives(
            _grad_of_a_clone,
            {
                "the warning": Containing(
                    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed"
                )
            },
        ),
    ),
    Claim(
        "clone-detach-deepcopy/detach-copies",
        "To copy a tensor and take the copy out of the graph, use `detach()`.",
        probed("detach", {"shares_memory": False, "graph": False}),
        reproductions.DETACH_SHARES,
    ),
    Claim(
        "clone-detach-deepcopy/detach-shares-storage",
        "`detach()` gives a tensor on the same storage that requires no grad.",
        probed("detach", {"shares_memory": True, "requires_grad": False}),
    ),
    Claim(
        "clone-detach-deepcopy/detach-leaves-graph",
        "`detach()` takes a tensor out of the graph.",
        probed("detach", {"graph": False, "is_leaf": True}),
    ),
    Claim(
        "clone-detach-deepcopy/detached-sum",
        "Where `z` is three times a detached `x` instead, `x.grad` is 2 everywhere.",
        gives(_sums, {"`x.grad` where the second is detached": "tensor([2., 2., 2., 2., 2.])"}),
    ),
    Claim(
        "clone-detach-deepcopy/detached-write-raises",
        "A write through `a.detach()` after `b = a**2` makes the backward pass of `b` raise, with this message.",
        gives(_writes, {"backward after a write through `a.detach()`": Containing(_OVERWRITTEN)}),
    ),
    Claim(
        "clone-detach-deepcopy/detached-write-reaches-source",
        "That is because `detach()` makes no copy: the write changes `a` itself.",
        gives(_writes, {"`a` after that write": "tensor([0., 0., 0., 0., 0.], requires_grad=True)"}),
    ),
    Claim(
        "clone-detach-deepcopy/cloned-write-harmless",
        "With a clone in between the same write does no harm: `a.grad` is 2 everywhere.",
        gives(
            _writes,
            {
                "after a write to `a.clone()`": "no error, tensor([2., 2., 2., 2., 2.])",
                "after a write to `a.clone().detach()`": "no error, tensor([2., 2., 2., 2., 2.])",
                "after a write to `a.detach().clone()`": "no error, tensor([2., 2., 2., 2., 2.])",
            },
        ),
    ),
    Claim(
        "clone-detach-deepcopy/orders-equivalent",
        "`clone().detach()` and `detach().clone()` have the same result in the end.",
        same_as_clone_detach("detach_clone"),
    ),
    Claim(
        "clone-detach-deepcopy/detach-first-untracked",
        "With `detach()` first, the clone is not recorded.",
        gives(nodes_recorded, {"node that `detach().clone()` records": "None"}),
    ),
    Claim(
        "clone-detach-deepcopy/clone-first-discarded",
        "With `clone()` first, it is recorded, and the record is deleted after `detach()`.",
        gives(
            nodes_recorded,
            {
                "node that `clone()` records": Containing("CloneBackward"),
                "`clone().detach()` keeps the node": False,
            },
        ),
    ),
    Claim(
        "clone-detach-deepcopy/detach-first-faster",
        "Detaching first is a minor saving of time.",
        takes((("clone_detach", "detach_clone"),), "slower", source="non_leaf"),
        reproductions.timing("t.clone().detach()", "t.detach().clone()", numel="2**20", requires_grad=True),
        timing=True,
    ),
    Claim(
        "clone-detach-deepcopy/both-orders-independent",
        "In either order the result has memory of its own, and no gradient flows back to the earlier graph.",
        probed(_BOTH_ORDERS, {"shares_memory": False, "graph": False}),
    ),
    Claim(
        "clone-detach-deepcopy/deepcopy-new-metadata",
        "`deepcopy` of a tensor deep-copies all that belongs to it: attributes and gradient too.",
        probed("deepcopy", {"attributes_kept": True, "grad_kept": True}, on=("leaf", "parameter")),
        reproductions.ATTRIBUTES,
    ),
    Claim(
        "clone-detach-deepcopy/deepcopy-copies-history",
        "`deepcopy` copies the history of a tensor with it.",
        gives(
            _history,
            {"`copy.deepcopy` of a tensor with a history": "no error"},
            also=("of a leaf, which has none",),
        ),
        reproductions.NON_LEAF,
    ),
    Claim(
        "clone-detach-deepcopy/deepcopy-expensive",
        "`deepcopy` of a tensor is expensive (here: takes longer than a clone).",
        takes((("deepcopy", "clone"),), "slower"),
        reproductions.timing("copy.deepcopy(t)", "t.clone()", numel="2**20"),
        timing=True,
    ),
    Claim(
        "clone-detach-deepcopy/deepcopy-prints",
        "A leaf and its deep copy print alike, both with `requires_grad=True`.",
        gives(
            _deepcopy_printed,
            {
                "`print(x)`": "tensor([1., 1., 1., 1., 1.], requires_grad=True)",
                "`print(x_deepcopy)`": "tensor([1., 1., 1., 1., 1.], requires_grad=True)",
            },
        ),
    ),
    Claim(
        "clone-detach-deepcopy/only-clone-passes-gradients",
        "Of the three, only `clone()` lets gradients reach the original tensor.",
        both(
            probed("clone", {"graph": True}, on=("leaf", "parameter")),
            probed(("detach", "deepcopy"), {"graph": False}, on=("leaf", "parameter")),
        ),
    ),
    Claim(
        "clone-detach-deepcopy/module-has-no-clone",
        "A `Module` has no `clone` method.",
        gives(_models, {"`nn.Module` has a `clone`": False}),
        reproductions.NO_MODULE_CLONE,
    ),
    Claim(
        "clone-detach-deepcopy/module-deepcopy",
        "A model can be copied with `copy.deepcopy`.",
        gives(
            _models,
            {
                "`deepcopy` of a model gives the same output": True,
                "and still when the original is zeroed": True,
            },
        ),
    ),
    Claim(
        "clone-detach-deepcopy/module-state-dict",
        "Or with a new instance into which the parameters are copied.",
        gives(
            _models,
            {
                "a new model with the `state_dict` loaded gives the same output": True,
                "and still does after the original is zeroed": True,
            },
        ),
    ),
)
