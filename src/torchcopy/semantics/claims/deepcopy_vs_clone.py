"""The article that compares `copy.deepcopy` with `clone()`: how deep each goes, and what it costs."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..sources import SourceKind
from . import reproductions
from .checks import gives, outcome, probed, shown, verdict_of
from .measurements import Measurements
from .records import Article, Claim, Finding
from .timed import model_copy_slower, takes

ARTICLE = Article("deepcopy-vs-clone", "Copy.deepcopy() vs clone() in Pytorch", "English")


# --- programs: deepcopy --------------------------------------------------------------------------------------


def _standard_library() -> Mapping[str, object]:
    return {"`copy` belongs to the standard library": "copy" in sys.stdlib_module_names}


def _nested() -> Mapping[str, object]:
    original: dict[str, Any] = {"layers": [{"weight": torch.ones(2)}, {"weight": torch.ones(2)}], "steps": [1, 2]}
    twin = copy.deepcopy(original)
    layers, copied = original["layers"], twin["layers"]
    pairs: list[tuple[Any, Any]] = [(original, twin), (layers, copied), (original["steps"], twin["steps"])]
    pairs += list(zip(layers, copied, strict=True))
    tensors = [(a["weight"], b["weight"]) for a, b in zip(layers, copied, strict=True)]
    return {
        "containers in common": sum(a is b for a, b in pairs),
        "tensors that share memory": sum(a.data_ptr() == b.data_ptr() for a, b in tensors),
    }


def _model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def _copied_model() -> Mapping[str, object]:
    model = _model()
    model(torch.ones(5, 3)).sum().backward()
    twin = copy.deepcopy(model)
    pairs = list(zip(model.state_dict().values(), twin.state_dict().values(), strict=True))
    equal = all(torch.equal(a, b) for a, b in pairs)
    shared = sum(a.data_ptr() == b.data_ptr() for a, b in pairs)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.zero_()
    kept = all(float(p.detach().abs().sum()) > 0 for p in twin[0].parameters())
    return {
        "parameters and buffers of the copy that are equal": equal,
        "that share memory with the original": shared,
        "the copy keeps its values when the original's are zeroed": kept,
        "parameters with a `.grad`, original": sum(p.grad is not None for p in model.parameters()),
        "parameters with a `.grad`, copy": sum(p.grad is not None for p in twin.parameters()),
    }


def _hook() -> Mapping[str, object]:
    model = nn.Linear(2, 2)
    seen: list[nn.Module] = []
    model.register_forward_hook(lambda *_: seen.append(model))
    twin = copy.deepcopy(model)
    twin(torch.ones(2))
    return {
        "the hook of the copy refers to the copy": seen[-1] is twin,
        "it refers to the original": seen[-1] is model,
    }


def _ties() -> Mapping[str, object]:
    one = nn.Parameter(torch.zeros(4))
    tied = copy.deepcopy([one, one])
    flat = torch.zeros(4)
    parts = copy.deepcopy([nn.Parameter(flat[:2]), nn.Parameter(flat)])
    views = copy.deepcopy([flat[:2], flat])

    def one_storage(tensors: list[Tensor]) -> bool:
        return tensors[0].untyped_storage().data_ptr() == tensors[1].untyped_storage().data_ptr()

    return {
        "one parameter used twice stays one": tied[0] is tied[1],
        "two plain tensors on one storage stay so": one_storage(views),
        "two parameters on one storage stay so": one_storage(list(parts)),
    }


def _immutable() -> Mapping[str, object]:
    t = torch.tensor([1, 2, 3])
    refused = outcome(lambda: t.__setitem__(0, 10)) != "no error"
    return {"`t[0] = 10` is refused": refused, "`t` afterwards": str(t)}


def _containers() -> Mapping[str, object]:
    original = [torch.zeros(1)]
    shallow, deep = copy.copy(original), copy.deepcopy(original)
    original[0].fill_(1)
    return {
        "a shallow copy of a list sees a write to its tensor": float(shallow[0]) == 1,
        "a deep copy sees it": float(deep[0]) == 1,
    }


def _stages() -> Mapping[str, object]:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    stages, values = [], []
    for _ in range(3):
        stages.append(copy.deepcopy(model))
        values.append(model.weight.detach().clone())
        optimizer.zero_grad()
        model(torch.ones(4, 2)).sum().backward()
        optimizer.step()
    kept = [torch.equal(stage.weight, value) for stage, value in zip(stages, values, strict=True)]
    return {"stages that kept their values while training went on": sum(kept), "stages": len(kept)}


def _deepcopy_example() -> Mapping[str, object]:
    tensor = torch.tensor([1, 2, 3])
    tensor_copy = copy.deepcopy(tensor)
    tensor[0] = 10
    return {"the original": str(tensor), "the copy": str(tensor_copy)}


def _steps_by_size() -> Mapping[str, object]:
    counts = []
    for numel in (10, 10_000):
        memo: dict[int, object] = {}
        copy.deepcopy(torch.zeros(numel), memo)
        counts.append(len(memo))
    return {
        "more elements take more steps": counts[1] > counts[0],
        "objects visited for 10 elements": counts[0],
        "for 10,000": counts[1],
    }


# --- programs: clone -----------------------------------------------------------------------------------------


def _clone_example() -> Mapping[str, object]:
    original = torch.tensor([1, 2, 3, 4, 5])
    clone = original.clone()
    clone[0] = 10
    return {
        "the original": str(original),
        "the clone": str(clone),
        "they have one address": original.data_ptr() == clone.data_ptr(),
    }


def _both_directions() -> Mapping[str, object]:
    a = torch.zeros(2)
    b = a.clone()
    b[0] = 1
    a[1] = 2
    return {
        "a write to the clone reaches the original": a[0].item() == 1,
        "a write to the original reaches the clone": b[1].item() == 2,
    }


def _clone_methods() -> Mapping[str, object]:
    model = nn.Linear(1, 1)
    things: tuple[object, ...] = (
        model,
        model.state_dict(),
        torch.optim.SGD(model.parameters()),
        [torch.ones(1)],
        {},
    )
    having = [type(thing).__name__ for thing in things if hasattr(thing, "clone")]
    return {
        "models and containers with a `clone`": ", ".join(having) or "none",
        "tried": ", ".join(type(thing).__name__ for thing in things),
        "`model.clone()`": outcome(lambda: model.clone()),  # type: ignore[operator]
    }


def _clone_bytes(measured: Measurements) -> Finding:
    facts = measured.facts("clone").on("no_grad")
    evidence = f"Bytes that a clone of a tensor of {shown(facts.source_bytes)} bytes newly holds: "
    return Finding(verdict_of([facts.kept_bytes == 0]), f"{evidence}{shown(facts.kept_bytes)} (said: 0).")


def _deepcopy_bytes(measured: Measurements) -> Finding:
    kinds: tuple[SourceKind, ...] = ("no_grad", "transposed", "expanded", "slice")
    agreements, parts = [], []
    for kind in kinds:
        clone, deep = (measured.facts(method).on(kind).kept_bytes for method in ("clone", "deepcopy"))
        agreements.append(clone is not None and deep is not None and deep > clone)
        parts.append(f"{kind.replace('_', '-')}: {shown(deep)} against {shown(clone)}")
    return Finding(
        verdict_of(agreements), f"Bytes held by `copy.deepcopy(t)` and by `t.clone()`: {'; '.join(parts)}."
    )


# --- claims ---------------------------------------------------------------------------------------------------

CLAIMS = (
    Claim(
        "deepcopy-vs-clone/standard-library",
        "`copy.deepcopy` comes with Python's own `copy` module, not with PyTorch.",
        gives(_standard_library, {"`copy` belongs to the standard library": True}),
    ),
    Claim(
        "deepcopy-vs-clone/deepcopy-recursive",
        "`deepcopy` goes down into nested objects and copies each of them.",
        gives(_nested, {"containers in common": 0, "tensors that share memory": 0}),
    ),
    Claim(
        "deepcopy-vs-clone/deepcopy-copies-tensors",
        "`deepcopy` makes a deep copy of a tensor, as of any other object.",
        probed("deepcopy", {"values_kept": True}),
        reproductions.NON_LEAF,
    ),
    Claim(
        "deepcopy-vs-clone/deepcopy-own-memory",
        "A tensor that `deepcopy` returns has memory of its own: later writes do not pass between the two.",
        probed("deepcopy", {"shares_memory": False}, on=("leaf", "parameter", "no_grad", "slice")),
    ),
    Claim(
        "deepcopy-vs-clone/deepcopy-copies-models",
        "`deepcopy` of a model duplicates its layers and parameters: the copy is independent.",
        gives(
            _copied_model,
            {
                "parameters and buffers of the copy that are equal": True,
                "that share memory with the original": 0,
                "the copy keeps its values when the original's are zeroed": True,
            },
        ),
    ),
    Claim(
        "deepcopy-vs-clone/deepcopy-copies-gradients",
        "`deepcopy` of a model replicates its gradients too.",
        gives(
            _copied_model,
            {"parameters with a `.grad`, copy": 6},
            also=("parameters with a `.grad`, original",),
        ),
        reproductions.NO_GRAD_KEPT,
    ),
    Claim(
        "deepcopy-vs-clone/no-shared-references",
        "In a deep copy of a model nothing refers to the original any more.",
        gives(_hook, {"the hook of the copy refers to the copy": True}, also=("it refers to the original",)),
        reproductions.HOOK,
    ),
    Claim(
        "deepcopy-vs-clone/structure-kept",
        "`deepcopy` keeps how the parts of a model hang together.",
        gives(
            _ties,
            {
                "one parameter used twice stays one": True,
                "two plain tensors on one storage stay so": True,
                "two parameters on one storage stay so": True,
            },
        ),
        reproductions.TIES,
    ),
    Claim(
        "deepcopy-vs-clone/tensors-immutable",
        "Tensors are immutable objects.",
        gives(_immutable, {"`t[0] = 10` is refused": True}, also=("`t` afterwards",)),
        reproductions.WRITE,
    ),
    Claim(
        "deepcopy-vs-clone/containers-need-deepcopy",
        "For lists and dictionaries it takes a deep copy to be safe from later changes to what they hold.",
        gives(
            _containers,
            {"a shallow copy of a list sees a write to its tensor": True, "a deep copy sees it": False},
        ),
    ),
    Claim(
        "deepcopy-vs-clone/deepcopy-keeps-stages",
        "Deep copies taken during training keep the model as it was at each stage.",
        gives(_stages, {"stages that kept their values while training went on": 3}, also=("stages",)),
    ),
    Claim(
        "deepcopy-vs-clone/deepcopy-more-memory",
        "A deep copy of a tensor takes more memory than a clone.",
        _deepcopy_bytes,
        reproductions.BYTES,
    ),
    Claim(
        "deepcopy-vs-clone/deepcopy-example-original",
        "After `tensor[0] = 10` the original prints `tensor([10,  2,  3])`.",
        gives(_deepcopy_example, {"the original": "tensor([10,  2,  3])"}),
    ),
    Claim(
        "deepcopy-vs-clone/deepcopy-example-copy",
        "The deep copy taken before still prints `tensor([1, 2, 3])`.",
        gives(_deepcopy_example, {"the copy": "tensor([1, 2, 3])"}),
    ),
    Claim(
        "deepcopy-vs-clone/deepcopy-by-element",
        "`deepcopy` of a tensor is a recursive walk that copies element by element.",
        gives(
            _steps_by_size,
            {"more elements take more steps": True},
            also=("objects visited for 10 elements", "for 10,000"),
        ),
        reproductions.STEPS,
    ),
    Claim(
        "deepcopy-vs-clone/clone-shallow",
        "`clone()` is a shallow copy: it does not duplicate the memory, and so saves allocating it.",
        _clone_bytes,
        reproductions.CLONE_BYTES,
    ),
    Claim(
        "deepcopy-vs-clone/clone-shares-memory",
        "A clone shares the underlying memory with the original, so that a change to one shows in the other.",
        probed("clone", {"shares_memory": True}),
        reproductions.WRITE_CLONE,
    ),
    Claim(
        "deepcopy-vs-clone/clone-independent",
        "Changing a clone leaves the original as it is, and the other way round (the article says this too).",
        gives(
            _both_directions,
            {
                "a write to the clone reaches the original": False,
                "a write to the original reaches the clone": False,
            },
        ),
    ),
    Claim(
        "deepcopy-vs-clone/clone-example-original",
        "After `cloned_tensor[0] = 10` the original still prints `tensor([1, 2, 3, 4, 5])`.",
        gives(_clone_example, {"the original": "tensor([1, 2, 3, 4, 5])"}),
    ),
    Claim(
        "deepcopy-vs-clone/clone-example-clone",
        "The clone then prints `tensor([10,  2,  3,  4,  5])`.",
        gives(_clone_example, {"the clone": "tensor([10,  2,  3,  4,  5])"}),
    ),
    Claim(
        "deepcopy-vs-clone/clone-example-memory",
        "That output shows two tensors with one underlying memory.",
        gives(_clone_example, {"they have one address": True}, also=("the original", "the clone")),
        reproductions.WRITE_CLONE,
    ),
    Claim(
        "deepcopy-vs-clone/clone-attributes",
        "`clone()` takes over the attributes of the object, and refers to what they hold.",
        probed("clone", {"attributes_kept": True}),
        reproductions.ATTRIBUTE,
    ),
    Claim(
        "deepcopy-vs-clone/clone-applies-to-models",
        "`clone()` can be applied to models and other structures as well as to tensors.",
        gives(
            _clone_methods,
            {"models and containers with a `clone`": "Linear, OrderedDict, SGD, list, dict"},
            also=("`model.clone()`",),
        ),
        reproductions.NO_MODULE_CLONE,
    ),
    Claim(
        "deepcopy-vs-clone/mutable-needs-deepcopy",
        "Where later changes must not reach the original tensor, `clone()` is not safe and `deepcopy` is needed.",
        probed("clone", {"shares_memory": True}, on=("leaf", "no_grad", "slice")),
        reproductions.WRITE_CLONE,
    ),
    Claim(
        "deepcopy-vs-clone/detach-copies",
        "`tensor.detach()` is one of the ways to make a copy of a tensor.",
        probed("detach", {"shares_memory": False}),
        reproductions.DETACH_SHARES,
    ),
    Claim(
        "deepcopy-vs-clone/clone-faster",
        "`clone()` is faster than `deepcopy`, with large tensors too.",
        takes((("deepcopy", "clone"),), "slower"),
        reproductions.timing("copy.deepcopy(t)", "t.clone()", numel="2**20"),
        timing=True,
    ),
    Claim(
        "deepcopy-vs-clone/deepcopy-slow-on-hierarchies",
        "Walking a large hierarchy makes `deepcopy` slow: slower than cloning the tensors in it.",
        model_copy_slower(((64, 16), (4, 512))),
        reproductions.MODEL_TIMES,
        timing=True,
    ),
)
