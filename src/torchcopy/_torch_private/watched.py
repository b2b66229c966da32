"""Functions of PyTorch's own that an audit wraps to see what no mode sees: where they are, by module and name."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch

BACKWARD: tuple[Any, str] = (torch.autograd, "_engine_run_backward")
"""What `backward` and `grad` call with the roots; the fourth of the other arguments has the inputs."""


def compiled_calls() -> tuple[Any, str] | None:
    """What every call of a compiled function calls; None as long as nothing can have been compiled."""
    module = sys.modules.get("torch._dynamo.eval_frame")
    return (
        None
        if module is None or not hasattr(module, "_callback_from_stance")
        else (module, "_callback_from_stance")
    )


def compiled_function(frame: FrameType) -> str | None:
    """The name of the function whose compiled form is called by `frame`; None where it calls none."""
    if frame.f_code.co_name != "compile_wrapper":
        return None
    fn = frame.f_locals.get("fn")
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    owner = getattr(fn, "__self__", None)
    return f"{type(owner).__qualname__}.{fn.__name__}" if isinstance(owner, torch.nn.Module) and fn else str(name)
