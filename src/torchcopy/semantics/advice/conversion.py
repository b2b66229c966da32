"""Advice for a copy on another device or in another dtype."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..._errors import InputError
from ..._tensors import dtype_name
from ..sources import build_source, parse_device, parse_dtype
from .records import Advice, Needs, TimedChoice, Warned, timed


def advise_conversion(needs: Needs) -> Advice:
    """One `to(…, copy=True)`: a single pass, and a copy also where nothing has to be converted."""
    dtype = parse_dtype(needs.dtype or "float32")
    if needs.graph == "keep" and not (dtype.is_floating_point or dtype.is_complex):
        raise InputError(f"graph='keep' cannot be had as {dtype_name(dtype)}: only floating dtypes carry gradients")
    there = ", ".join(
        [*([repr(needs.device)] if needs.device else []), *([f"torch.{needs.dtype}"] if needs.dtype else [])]
    )
    if needs.hot_loop and needs.graph == "detach":
        return _into_buffer(needs, there, dtype)
    base = "t" if needs.graph == "keep" else "t.detach()"
    expression = f"{base}.to({there}, copy=True)"
    clone_first, clone_last = f"{base}.clone().to({there})", f"{base}.to({there}).clone()"
    notes = []
    timings: tuple[TimedChoice, ...] = ()
    try:
        device = parse_device(needs.device or "cpu")
    except InputError as error:
        notes.append(f"Not measured: {error}.")
    else:
        start = _start(needs, device)
        timings = timed(
            {
                expression: lambda: start().to(device, dtype, copy=True),
                clone_first: lambda: start().clone().to(device, dtype),
                clone_last: lambda: start().to(device, dtype).clone(),
            }
        )
    if needs.device and not needs.device.startswith("cpu"):
        notes.append("`non_blocking=True` saves time only when the source lies in pinned memory.")
    elif needs.device and torch.cuda.is_available():
        notes.append("From a GPU, leave `non_blocking` out: the values could be read before they have arrived.")
    twice = "Copies twice where something is converted."
    avoid = (
        Warned(f"{base}.to({there})", "Returns the tensor itself, no copy, where it already fits."),
        Warned(clone_first, twice),
        Warned(clone_last, twice),
    )
    why = "One pass, and a copy also where nothing has to be converted."
    return Advice(needs, expression, "", why, tuple(notes), avoid, timings)


def _into_buffer(needs: Needs, there: str, dtype: torch.dtype) -> Advice:
    """Again and again with one shape: converted on the way into a buffer that exists."""
    arguments = [f"device={needs.device!r}"] if needs.device else []
    arguments += [f"dtype=torch.{needs.dtype}"] if needs.dtype else []
    setup = f"buffer = torch.empty_like(t, {', '.join(arguments)}, requires_grad=False)"
    fresh = f"t.detach().to({there}, copy=True)"
    notes = ["The buffer is written over each time: what the last copy held is gone."]
    timings: tuple[TimedChoice, ...] = ()
    try:
        device = parse_device(needs.device or "cpu")
    except InputError as error:
        notes.append(f"Not measured: {error}.")
    else:
        start = _start(needs, device)
        buffer = torch.empty_like(start(), device=device, dtype=dtype, requires_grad=False)
        calls: dict[str, Callable[[], object]] = {
            "buffer.copy_(t.detach())": lambda: buffer.copy_(start()),
            fresh: lambda: start().to(device, dtype, copy=True),
        }
        timings = timed(calls)
    why = "Converts in the same pass, and allocates nothing."
    return Advice(needs, "buffer.copy_(t.detach())", setup, why, tuple(notes), (), timings)


def _start(needs: Needs, device: torch.device) -> Callable[[], Tensor]:
    """A source to convert: on the GPU when the copy is asked for on the CPU and there is one."""
    on_gpu = bool(needs.device) and device.type == "cpu" and torch.cuda.is_available()
    place = torch.device("cuda" if on_gpu else "cpu")
    source = build_source("non_leaf", numel=needs.numel, device=place, dtype=torch.float32).tensor
    return (lambda: source) if needs.graph == "keep" else source.detach
