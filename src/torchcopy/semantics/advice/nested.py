"""Advice for models, state_dicts and containers."""

from __future__ import annotations

import copy
import dataclasses

import torch
from torch import nn

from ... import _torch_private
from .records import Advice, Needs, Warned, timed
from .tensor import LAZY_NOTE

_CLONES = "{k: v.detach().clone() for k, v in model.state_dict().items()}"
_REFERENCE = Warned("best = model.state_dict()", "These are the live tensors: training writes over them.")
_SHALLOW = Warned("copy.copy(model), model.state_dict().copy()", "New containers around the same tensors.")


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
    return Advice(
        needs,
        "copy.deepcopy(model)",
        "",
        "A second model: modules, parameters and buffers of its own.",
        (
            f"For the values only, as a state_dict, write `{_CLONES}`: it is the faster copy.",
            "Raises where the model holds a non-leaf tensor, drops `.grad` of parameters, and leaves what closures "
            "and bound methods reach the original's.",
        ),
        (_REFERENCE, _SHALLOW),
        timed(
            {
                "copy.deepcopy(model)": lambda: copy.deepcopy(model),
                _CLONES: lambda: _clones(model),
                "copy.deepcopy(model.state_dict())": lambda: copy.deepcopy(model.state_dict()),
            }
        ),
    )


def _warm(needs: Needs, model: nn.Module) -> Advice:
    expression = "torch._foreach_copy_(kept, list(model.state_dict().values()))"
    kept = [torch.empty_like(value) for value in model.state_dict().values()]
    return Advice(
        needs,
        expression,
        "kept = [torch.empty_like(v) for v in model.state_dict().values()]",
        "One call, into memory that exists and is warm.",
        (
            "`kept` is written over each time.",
            "Back into the model: `model.load_state_dict(dict(zip(model.state_dict(), kept)))`.",
        ),
        (_REFERENCE, _SHALLOW, Warned("copy.deepcopy(model)", "Copies the whole object tree each time.")),
        timed(
            {
                expression: lambda: _torch_private.foreach_copy_(kept, list(model.state_dict().values())),
                _CLONES: lambda: _clones(model),
                "copy.deepcopy(model.state_dict())": lambda: copy.deepcopy(model.state_dict()),
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
    expression = "{k: torch._lazy_clone(v) for k, v in model.state_dict().items()}"
    return Advice(
        needs,
        expression,
        "",
        "Only the tensors that somebody writes are ever copied.",
        (LAZY_NOTE,),
        (_REFERENCE, _SHALLOW),
        timed(
            {
                expression: lambda: {k: _torch_private.lazy_clone(v) for k, v in model.state_dict().items()},
                _CLONES: lambda: _clones(model),
            }
        ),
    )


def _kept_graph(needs: Needs, model: nn.Module) -> Advice:
    notes: tuple[str, ...] = ()
    if needs.memory == "share":
        expression = "dict(model.named_parameters())"
        why = "The parameters themselves: gradients flow to them, and so does every write."
        timings = timed({expression: lambda: dict(model.named_parameters())})
    elif needs.memory == "lazy":
        expression = "{k: torch._lazy_clone(v) for k, v in model.named_parameters()}"
        notes = (LAZY_NOTE,)
        why = "In the graph, and only what somebody writes is ever copied."
        timings = timed(
            {expression: lambda: {k: _torch_private.lazy_clone(v) for k, v in model.named_parameters()}}
        )
    else:
        expression = "{k: v.clone() for k, v in model.named_parameters()}"
        why = "A clone of each parameter, in the graph."
        timings = timed({expression: lambda: {k: v.clone() for k, v in model.named_parameters()}})
    run = "Run the model on them with `torch.func.functional_call(model, params, inputs)`."
    avoid = (Warned("copy.deepcopy(model)", "Its parameters are new leaves: no gradient reaches the original."),)
    buffers = "Buffers stay the model's own: BatchNorm in training still writes its running statistics."
    return Advice(needs, expression, "", why, (run, buffers, *notes), avoid, timings)


def _clones(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
