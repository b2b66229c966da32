"""Advice for models, state_dicts and containers."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ... import _torch_private
from ..catalogue import import_callable
from .records import Advice, Needs, Warned, timed

_CLONES = "{k: v.detach().clone() for k, v in model.state_dict().items()}"
_REFERENCE = Warned("best = model.state_dict()", "These are the live tensors: training writes over them.")
_SHALLOW = Warned("copy.copy(model), model.state_dict().copy()", "New containers around the same tensors.")
_FORK_NOTE = (
    "A raw pointer taken before (an old `numpy()` view, a DLPack capsule, a captured CUDA graph) writes into both."
)


def advise_nested(needs: Needs) -> Advice:
    """What to write for a whole model or state_dict, timed on a stack of linear layers of the size asked for."""
    model = _sample_model(needs.numel)
    if needs.graph == "keep":
        advice = _kept_graph(needs, model)
    elif needs.memory == "share":
        advice = _shared(needs, model)
    elif needs.memory == "lazy":
        advice = _lazy(needs, model)
    else:
        advice = _warm(needs, model) if needs.hot_loop else _owned(needs, model)
    parameters = sum(p.numel() for p in model.parameters())
    return dataclasses.replace(advice, measured_on=f"a model of {len(model)} layers, {parameters:,} parameters")


def _sample_model(numel: int) -> nn.Sequential:
    """Square linear layers with about `numel` parameters in all; at least one parameter in each of eight."""
    depth = 8
    width = max(1, round((numel / depth) ** 0.5))
    return nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(depth)))


def _owned(needs: Needs, model: nn.Module) -> Advice:
    make = _tc("copy")
    return Advice(
        needs,
        "tc.copy(model)",
        "",
        "A second model: modules, parameters and buffers of its own, all tensors copied in a few calls.",
        (
            "For the values only, as a state_dict, write `tc.copy(model.state_dict())`; with the optimizer, "
            "`tc.copy((model, optimizer))`.",
            "It warns of closures and bound methods that still reach the original's tensors.",
        ),
        (
            _REFERENCE,
            _SHALLOW,
            Warned("copy.deepcopy(model)", "Raises where the model holds a non-leaf tensor, and is slower."),
        ),
        timed(
            {
                "tc.copy(model)": lambda: make(model),
                "copy.deepcopy(model)": lambda: copy.deepcopy(model),
                "tc.copy(model.state_dict())": lambda: make(model.state_dict()),
                _CLONES: lambda: _clones(model),
                "copy.deepcopy(model.state_dict())": lambda: copy.deepcopy(model.state_dict()),
            }
        ),
    )


def _warm(needs: Needs, model: nn.Module) -> Advice:
    make, write = _tc("copy"), _tc("copy_")
    kept, values = make(model), [torch.empty_like(value) for value in model.state_dict().values()]
    return Advice(
        needs,
        "tc.copy_(kept, model)",
        "kept = tc.copy(model)",
        "Into memory that exists and is warm, in one call, after a check that all of it fits.",
        (
            "`kept` is written over each time.",
            "Back into the model: `tc.copy_(model, kept)`. For a moving average: `tc.lerp_(kept, model, 0.01)`.",
        ),
        (_REFERENCE, _SHALLOW, Warned("copy.deepcopy(model)", "Copies the whole object tree each time.")),
        timed(
            {
                "tc.copy_(kept, model)": lambda: write(kept, model),
                "torch._foreach_copy_(values, list(model.state_dict().values()))": lambda: (
                    _torch_private.foreach_copy_(values, list(model.state_dict().values()))
                ),
                "kept.load_state_dict(model.state_dict())": lambda: kept.load_state_dict(model.state_dict()),
                _CLONES: lambda: _clones(model),
                "copy.deepcopy(model)": lambda: copy.deepcopy(model),
            }
        ),
    )


def _shared(needs: Needs, model: nn.Module) -> Advice:
    return Advice(
        needs,
        "model.state_dict()",
        "",
        "A state_dict holds detached tensors that share memory with the model.",
        ("The next `optimizer.step()` changes what it holds.",),
        (Warned("copy.copy(model)", "A second module whose parameters are those of the first, in the graph."),),
        timed({"model.state_dict()": model.state_dict}),
    )


def _lazy(needs: Needs, model: nn.Module) -> Advice:
    make, fork = _tc("copy"), _tc("fork")
    return Advice(
        needs,
        "tc.fork(model)",
        "",
        "Only the tensors that somebody writes are ever copied.",
        (_FORK_NOTE,),
        (
            _REFERENCE,
            _SHALLOW,
            Warned(
                "{k: torch._lazy_clone(v) for k, v in model.state_dict().items()}",
                "Two threads that write, or drop, two lazy clones at the same moment can hang (torch 2.13).",
            ),
        ),
        timed({"tc.fork(model)": lambda: fork(model), "tc.copy(model)": lambda: make(model)}),
    )


def _kept_graph(needs: Needs, model: nn.Module) -> Advice:
    notes: tuple[str, ...] = ()
    if needs.memory == "share":
        expression = "dict(model.named_parameters())"
        why = "The parameters themselves: gradients flow to them, and so does every write."
        timings = timed({expression: lambda: dict(model.named_parameters())})
    elif needs.memory == "lazy":
        fork, expression = _tc("fork"), 'tc.fork(dict(model.named_parameters()), graph="keep")'
        notes = (_FORK_NOTE,)
        why = "In the graph, and only what somebody writes is ever copied."
        timings = timed({expression: lambda: fork(dict(model.named_parameters()), graph="keep")})
    else:
        expression = "{k: v.clone() for k, v in model.named_parameters()}"
        why = "A clone of each parameter, in the graph."
        timings = timed({expression: lambda: {k: v.clone() for k, v in model.named_parameters()}})
    run = "Run the model on them with `torch.func.functional_call(model, params, inputs)`."
    avoid = (Warned("copy.deepcopy(model)", "Its parameters are new leaves: no gradient reaches the original."),)
    buffers = "Buffers stay the model's own: BatchNorm in training still writes its running statistics."
    return Advice(needs, expression, "", why, (run, buffers, *notes), avoid, timings)


def _tc(name: str) -> Callable[..., Any]:
    """A function of this library, imported at its first use: what copies stands above what knows about copying."""
    found: Callable[..., Any] = import_callable(f"torchcopy:{name}", "function")
    return found


def _clones(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
