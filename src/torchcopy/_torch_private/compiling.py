"""Where `torch.compile` has to leave a function alone, and what it is to know of new modules."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import torch

_C: Any = torch._C
_F = TypeVar("_F", bound=Callable[..., Any])


def outside_compiled_graphs(function: _F) -> _F:
    """Has `torch.compile` run `function`, and what it calls, as Python does: a call is a break in the graph.

    As `torch.compiler.disable` does, but that loads the compiler at once, which takes seconds, and puts a call of
    its own around each call.
    """
    marked: Any = function
    marked._torchdynamo_disable = True
    marked._torchdynamo_disable_msg = "it goes through Python objects, which are in no graph"
    frames = _C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):  # not in PyTorch 2.6: what is called there may be compiled
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(marked.__code__, frames._FrameExecStrategy(skip, skip))
    return function


def is_of_module_tagging(method: object) -> bool:
    """Whether the method is the `Module.__setstate__` that `torch.compile` puts in the place of PyTorch's."""
    return getattr(method, "__module__", None) == _TAGGING


def tag_module(module: torch.nn.Module) -> None:
    """Has `torch.compile` know a new module, as one whose `__setstate__` has run."""
    tracker: Any = sys.modules[_TAGGING]
    tracker.GenerationTracker.tag(module)


def restore_module_call(ours: object, before: object) -> None:
    """Has `torch.compile` take `before` for the `Module.__call__` that is PyTorch's, if it has taken `ours` for it.

    It notes which one is there when it is loaded, and goes a longer way where a module has another.
    """
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        there = sys.modules.get(name)
        if there is not None and getattr(there, "unpatched_nn_module_call", None) is ours:
            there.unpatched_nn_module_call = before  # type: ignore[attr-defined]


_TAGGING = "torch._dynamo.mutation_guard"
