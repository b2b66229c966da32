"""Functions of PyTorch's own that an audit wraps to see what no mode sees: where they are, by module and name."""

from __future__ import annotations

import functools
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
    cells = getattr(fn, "__closure__", None) or ()
    inner = next((c.cell_contents for c in cells if callable(c.cell_contents)), None)
    if inner is not None and getattr(fn, "__qualname__", "").startswith(
        "wrap_inline"
    ):  # what a module is called by
        fn = inner
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return type(owner).__qualname__
    return str(getattr(fn, "__qualname__", None) or type(fn).__qualname__)


def never_compile(*packages: str) -> None:
    """Has the compiler leave the functions of some packages alone where they run between two compiled regions.

    In what is compiled it follows them, as it does those that they stand in for.
    """
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is None or not hasattr(rules, "add"):
        return
    followed = getattr(rules, "BUILTIN_INLINE_WHEN_CALLED", None)
    for package in packages:
        rules.add(package)
        if isinstance(followed, set):
            followed.update(sys.modules[package].__path__)


@functools.cache
def fill_tables() -> None:
    """Has PyTorch fill the tables of its own functions that it keeps: with those, and not with what wraps them."""
    overrides: Any = torch.overrides
    for name in ("get_default_nowrap_functions", "get_ignored_functions", "get_testing_overrides"):
        getattr(overrides, name)()
    for name in ("_get_overridable_functions", "_get_tensor_methods"):
        fill = getattr(overrides, name, None)
        if fill is not None:
            fill()
