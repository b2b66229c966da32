"""Where `torch.compile` has to leave a function alone."""

from __future__ import annotations

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
