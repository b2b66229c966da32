"""The article on `new_tensor`, `clone().detach()`, `empty_like().copy_()` and `torch.tensor`: speed and graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ..allocation import measure_allocation
from . import reproductions
from .checks import Containing, differing, gives, outcome, probed, warns
from .examples import graph_of_a_clone, nodes_recorded, warning_text
from .records import Article, Check, Claim
from .timed import extra_time_is_checking, gap_grows, takes, takes_times

ARTICLE = Article(
    "copying-methods",
    "Copying methods for PyTorch tensors, by speed and computational graph (the text bears no title)",
    "English",
)

FIVE = ("new_tensor", "clone_detach", "empty_like_copy_", "tensor", "detach_clone")
SLOW, FAST = ("new_tensor", "tensor"), ("clone_detach", "empty_like_copy_")
_MEGABYTES = 4_000_000


# --- programs ------------------------------------------------------------------------------------------------


def _warning() -> Mapping[str, object]:
    text = warning_text()
    return {
        "the warning": text,
        "expressions it names": " and ".join(re.findall(r"sourceTensor[\w.()]*\)", text)[:2]),
    }


def _clones_of_a_product() -> Mapping[str, object]:
    x = torch.tensor([1.0], requires_grad=True)
    y = x * 2
    z1, z2, z3, z4 = y.clone(), y.detach(), y.clone().detach(), y.detach().clone()
    backward = outcome(y.backward)
    return {
        "`y.backward()`": backward,
        "`x.grad`": str(x.grad),
        "`z1.requires_grad`": z1.requires_grad,
        "`z2.requires_grad`": z2.requires_grad,
        "`z3.requires_grad`": z3.requires_grad,
        "`z4.requires_grad`": z4.requires_grad,
    }


def _addresses() -> Mapping[str, object]:
    x = torch.ones(1000, 1000)
    y1, y2 = torch.empty_like(x).copy_(x), x.clone()
    return {"different addresses among `x`, `y1` and `y2`": len({t.data_ptr() for t in (x, y1, y2)})}


def _two_steps() -> Mapping[str, object]:
    x = torch.arange(1000.0)
    buffer = torch.empty_like(x)
    address = buffer.data_ptr()
    result = buffer.copy_(x)
    return {
        "`copy_` fills the memory that `empty_like` allocated": result.data_ptr() == address,
        "the values are then those of `x`": torch.equal(buffer, x),
    }


def _allocated(call: Callable[[], object]) -> int | str:
    _, allocation = measure_allocation(call, torch.device("cpu"))
    return "not told" if allocation is None else allocation.peak_bytes


def _allocations() -> Mapping[str, object]:
    x = torch.ones(1000, 1000)
    buffer = torch.empty_like(x)
    clone, two_steps = _allocated(lambda: x.clone()), _allocated(lambda: torch.empty_like(x).copy_(x))
    return {
        "bytes allocated by `x.clone()`": clone,
        "bytes allocated by `torch.empty_like(x).copy_(x)`": two_steps,
        "bytes allocated by `buffer.copy_(x)`": _allocated(lambda: buffer.copy_(x)),
        "`clone()` allocates less": isinstance(clone, int) and isinstance(two_steps, int) and clone < two_steps,
    }


def _logged_loss() -> Mapping[str, object]:
    def train(log: Callable[[Tensor], object]) -> tuple[list[float], object]:
        weight = torch.tensor([2.0], requires_grad=True)
        loss = (weight * 3 - 1).square().sum()
        logged = log(loss)
        loss.backward()  # type: ignore[no-untyped-call]
        assert weight.grad is not None
        return weight.grad.tolist(), logged

    plain, _ = train(lambda _: None)
    copied, _ = train(lambda loss: loss.detach().clone())
    direct, value = train(lambda loss: loss.item())
    return {
        "gradient without logging": str(plain),
        "with `loss.detach().clone()`": str(copied),
        "with `loss.item()` alone": str(direct),
        "the gradient stays as it is": copied == plain,
        "`loss.item()` alone changes the gradient": direct != plain,
        "type of `loss.item()`": type(value).__name__,
    }


# --- claims ---------------------------------------------------------------------------------------------------


def _pairs(methods: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((method, "detach_clone") for method in methods)


def _timed(name: str, claim: str, check: Check, reproduction: str) -> Claim:
    return Claim(f"copying-methods/{name}", claim, check, reproduction, timing=True)


_COPIES = {"values_kept": True, "shares_memory": False}
_EXAMPLE = "With `y = x * 2`"

CLAIMS = (
    Claim(
        "copying-methods/all-copy",
        "All five expressions give a tensor with the same values in memory of its own.",
        probed(FIVE, _COPIES, on=("leaf", "non_leaf")),
    ),
    Claim(
        "copying-methods/graph-differs",
        "The methods differ in whether the copy leaves the graph.",
        differing(FIVE, "graph"),
    ),
    Claim(
        "copying-methods/new-tensor-warns", "`x.new_tensor(x)` gives a `UserWarning`.", warns(["new_tensor"], True)
    ),
    Claim("copying-methods/tensor-warns", "`torch.tensor(x)` gives a `UserWarning`.", warns(["tensor"], True)),
    Claim(
        "copying-methods/others-silent",
        "The other three expressions give no warning.",
        warns([method for method in FIVE if method not in SLOW], False),
    ),
    Claim(
        "copying-methods/warning-wording",
        "The warning names `sourceTensor.clone().detach()` and `sourceTensor.detach().clone()` as what to write.",
        gives(
            _warning,
            {"expressions it names": "sourceTensor.clone().detach() and sourceTensor.detach().clone()"},
        ),
        reproductions.PRINT_WARNING,
    ),
    Claim(
        "copying-methods/detach-clone-recommended",
        "`detach().clone()` is what PyTorch itself recommends.",
        gives(_warning, {"the warning": Containing("sourceTensor.detach().clone()")}),
        reproductions.PRINT_WARNING,
    ),
    Claim(
        "copying-methods/clone-keeps-graph",
        "`clone()` stays in the graph: use it for a copy that takes part in the gradient.",
        probed("clone", {"graph": True, "gradient_correct": True}, on=("non_leaf", "leaf", "parameter")),
    ),
    Claim(
        "copying-methods/detach-leaves-graph",
        "`detach()` returns a new tensor outside the graph, which takes no part in the gradient.",
        probed("detach", {"is_source": False, "graph": False, "requires_grad": False}),
    ),
    Claim(
        "copying-methods/example-x-grad",
        f"{_EXAMPLE}, `y.backward()` gives `x.grad` = `tensor([2.])`, whatever copies of `y` were taken.",
        gives(_clones_of_a_product, {"`y.backward()`": "no error", "`x.grad`": "tensor([2.])"}),
    ),
    Claim(
        "copying-methods/example-z1",
        f"{_EXAMPLE}, `y.clone().requires_grad` is `True`.",
        gives(_clones_of_a_product, {"`z1.requires_grad`": True}),
    ),
    Claim(
        "copying-methods/example-z2",
        f"{_EXAMPLE}, `y.detach().requires_grad` is `False`.",
        gives(_clones_of_a_product, {"`z2.requires_grad`": False}),
    ),
    Claim(
        "copying-methods/example-z3",
        f"{_EXAMPLE}, `y.clone().detach().requires_grad` is `False`.",
        gives(_clones_of_a_product, {"`z3.requires_grad`": False}),
    ),
    Claim(
        "copying-methods/example-z4",
        f"{_EXAMPLE}, `y.detach().clone().requires_grad` is `False`.",
        gives(_clones_of_a_product, {"`z4.requires_grad`": False}),
    ),
    Claim(
        "copying-methods/orders-agree",
        "Both orders of `clone` and `detach` end in a copy outside the graph.",
        probed(("clone_detach", "detach_clone"), {**_COPIES, "graph": False, "requires_grad": False}),
    ),
    Claim(
        "copying-methods/clone-first-records",
        "On the way there they differ: cloning first makes autograd record what detaching first does not.",
        gives(
            nodes_recorded,
            {
                "node that `clone()` records": Containing("CloneBackward"),
                "node that `detach().clone()` records": "None",
            },
        ),
    ),
    Claim(
        "copying-methods/graph-duplicated",
        "What cloning first costs is a duplicate of the computational graph.",
        gives(
            graph_of_a_clone,
            {"the clone's graph is a copy": True},
            also=("nodes in the graph", "nodes that `clone()` adds"),
        ),
        reproductions.CLONE_ADDS_A_NODE,
    ),
    Claim(
        "copying-methods/addresses-differ",
        "`x`, `torch.empty_like(x).copy_(x)` and `x.clone()` have three different `data_ptr()`.",
        gives(_addresses, {"different addresses among `x`, `y1` and `y2`": 3}),
    ),
    Claim(
        "copying-methods/two-steps",
        "`empty_like().copy_()` is two steps: allocate, then fill that memory.",
        gives(
            _two_steps,
            {
                "`copy_` fills the memory that `empty_like` allocated": True,
                "the values are then those of `x`": True,
            },
        ),
    ),
    Claim(
        "copying-methods/copy-controls-memory",
        "`copy_` gives control over memory: filling a buffer that exists allocates nothing.",
        gives(
            _allocations,
            {"bytes allocated by `buffer.copy_(x)`": 0, "bytes allocated by `x.clone()`": _MEGABYTES},
        ),
    ),
    Claim(
        "copying-methods/clone-allocates-better",
        "`clone()` may allocate its memory in a more economical way than `empty_like().copy_()`.",
        gives(
            _allocations,
            {"`clone()` allocates less": True},
            also=("bytes allocated by `x.clone()`", "bytes allocated by `torch.empty_like(x).copy_(x)`"),
        ),
        reproductions.SAME_BYTES,
    ),
    Claim(
        "copying-methods/logged-loss",
        "Taking `loss.detach().clone()` for the log leaves the gradients of training as they are.",
        gives(
            _logged_loss,
            {"the gradient stays as it is": True},
            also=("gradient without logging", "with `loss.detach().clone()`"),
        ),
    ),
    Claim(
        "copying-methods/item-needs-a-copy",
        "It takes such a copy, before `.item()`, to log a loss without affecting the graph.",
        gives(
            _logged_loss,
            {"`loss.item()` alone changes the gradient": True},
            also=("gradient without logging", "with `loss.item()` alone", "type of `loss.item()`"),
        ),
        reproductions.LOG_DIRECTLY,
    ),
    _timed(
        "new-tensor-slower",
        "`new_tensor` takes longer than `detach().clone()`, at every size.",
        takes(_pairs(("new_tensor",)), "slower"),
        reproductions.timing("t.new_tensor(t)", "t.detach().clone()", numel="2**20"),
    ),
    _timed(
        "tensor-slower",
        "`torch.tensor` takes longer than `detach().clone()`, at every size.",
        takes(_pairs(("tensor",)), "slower"),
        reproductions.timing("torch.tensor(t)", "t.detach().clone()", numel="2**20"),
    ),
    _timed(
        "slower-when-large",
        "Both are slower above all for large tensors.",
        gap_grows(_pairs(SLOW)),
        reproductions.RATIO_BY_SIZE,
    ),
    _timed(
        "new-tensor-2-to-3",
        "`new_tensor` takes 2 to 3 times as long as `detach().clone()`.",
        takes_times(_pairs(("new_tensor",)), 2, 3),
        reproductions.timing("t.new_tensor(t)", "t.detach().clone()", numel="2**10"),
    ),
    _timed(
        "tensor-2-to-3",
        "`torch.tensor` takes 2 to 3 times as long as `detach().clone()`.",
        takes_times(_pairs(("tensor",)), 2, 3),
        reproductions.timing("torch.tensor(t)", "t.detach().clone()", numel="2**10"),
    ),
    _timed(
        "fast-ones-alike",
        "`clone().detach()`, `empty_like().copy_()` and `detach().clone()` are about equally fast "
        "(here: within a quarter of each other).",
        takes_times(_pairs(FAST), 0.8, 1.25),
        reproductions.timing("torch.empty_like(t).copy_(t)", "t.detach().clone()", numel="2**10"),
    ),
    _timed(
        "detach-first-faster",
        "For a tensor in the graph, detaching first is faster than cloning first.",
        takes((("clone_detach", "detach_clone"),), "slower", source="non_leaf"),
        reproductions.timing("t.clone().detach()", "t.detach().clone()", numel="2**20", requires_grad=True),
    ),
    _timed(
        "detach-first-faster-outside",
        "In the article's own benchmark, whose tensors need no grad, `detach().clone()` has a slight advantage.",
        takes((("clone_detach", "detach_clone"),), "slower"),
        reproductions.timing("t.clone().detach()", "t.detach().clone()", numel="2**10"),
    ),
    _timed(
        "differences-not-significant",
        "In that benchmark the order of the two may make no difference that can be told from noise.",
        takes((("clone_detach", "detach_clone"),), "too close to call"),
        reproductions.timing("t.clone().detach()", "t.detach().clone()", numel="2**10"),
    ),
    _timed(
        "extra-time-is-checking",
        "The extra time of `torch.tensor` goes into checking types and into the logic of moving between devices.",
        extra_time_is_checking,
        reproductions.timing("torch.tensor(t)", "torch.as_tensor(t)", "t.detach().clone()", numel="2**10"),
    ),
    _timed(
        "empty-like-for-speed",
        "Where every microsecond counts, `empty_like().copy_()` may beat `detach().clone()`.",
        takes((("empty_like_copy_", "detach_clone"),), "faster"),
        reproductions.timing("torch.empty_like(t).copy_(t)", "t.detach().clone()", numel="2**10"),
    ),
)
