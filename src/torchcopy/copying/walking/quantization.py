"""What `torch.ao.quantization` prepares: modules whose `qconfig` has functions that look at the module's device.

`prepare` and `prepare_qat` give each module makers of observers, and each maker a closure over the module. Kept by
reference, as functions are, it would make the copy's observers on the source's device, and keep the source alive.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import TYPE_CHECKING, Any

from torch import nn

from .protocol import copy_by_protocol

if TYPE_CHECKING:
    from .walk import Walk


def observer_makers() -> tuple[type, ...]:
    """The class of the makers of observers; none before PyTorch has loaded it."""
    maker = getattr(sys.modules.get("torch.ao.quantization.observer"), "_PartialWrapper", None)
    return () if maker is None else (maker,)


def copy_maker(walk: Walk, x: Any) -> Any:
    """A copy whose functions ask the copied module, where that is in the copy too."""
    y = copy_by_protocol(walk, x, type(x))
    walk.after.append(functools.partial(_ask_copies, walk, y))
    return y


def _ask_copies(walk: Walk, maker: Any) -> None:
    for name, function in maker.callable_args.items():
        if isinstance(function, types.FunctionType) and function.__module__ == "torch.ao.quantization.qconfig":
            rebound = _rebound(walk, function)
            if rebound is not function:
                maker.callable_args[name] = rebound
                walk.kept.pop(id(function), None)


def _rebound(walk: Walk, function: types.FunctionType) -> types.FunctionType:
    """The function with copies in place of the modules that it closes over; itself where they are not copied."""
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    copies = [walk.memo.get(id(each), each) if isinstance(each, nn.Module) else each for each in held]
    if all(copied is each for copied, each in zip(copies, held, strict=True)):
        return function
    code, cells = function.__code__, tuple(map(types.CellType, copies))
    new = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, cells)
    new.__qualname__ = function.__qualname__
    return new
