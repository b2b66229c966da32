"""Modes of the caller's and of torch's, set aside for a while or asked about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes, _push_mode

from .profiling import profiler_is_running

_C: Any = torch._C
_ops: Any = torch._ops


@contextmanager
def outside_modes() -> Iterator[None]:
    """Runs the body unseen by the caller's modes (fake tensors, a default device, an auditor) and subclasses.

    PyTorch's way to set modes aside imports modules with each call. In a child that was forked while another thread
    did so, the import waits for ever for a lock of that thread: it is called only where there are modes.
    """
    with _C.DisableTorchFunction():
        if not (_C._len_torch_dispatch_stack() or _ops._len_torch_dispatch_stack_pre_dispatch()):
            yield
            return
        with _disable_current_modes():
            yield


@contextmanager
def without_torch_function() -> Iterator[None]:
    """Runs the body as if tensor subclasses had no `__torch_function__`."""
    with _C.DisableTorchFunctionSubclass():
        yield


def without_function_modes() -> Any:
    """A context in which neither subclasses nor function modes of the caller's see what is asked of tensors."""
    return _C.DisableTorchFunction()


@contextmanager
def below_autograd() -> Iterator[None]:
    """Runs the body as under `torch.no_grad()`, and unseen by subclasses and function modes: a tenth faster."""
    guard = getattr(_C, "_AutoDispatchBelowAutograd", torch.no_grad)
    with _C.DisableTorchFunction(), guard():
        yield


def in_dispatch_mode() -> bool:
    """Whether a dispatch mode of the caller's (fake tensors, an auditor) would see what is called now."""
    return bool(_C._len_torch_dispatch_stack())


def innermost_mode() -> Any:
    """The dispatch mode that sees operations first on this thread; None where there is none."""
    depth = _C._len_torch_dispatch_stack()
    return _C._get_dispatch_stack_at(depth - 1) if depth else None


def exit_mode(mode: TorchDispatchMode) -> None:
    """Leaves a dispatch mode, wherever it stands among those of this thread; the others stay."""
    above = []
    while (each := innermost_mode()) is not None and each is not mode:
        _leave(each)
        above.append(each)
    if each is None:  # somebody has taken it away: what it has set is to be set back
        _push_mode(mode)
    _leave(mode)
    for each in reversed(above):
        TorchDispatchMode.__enter__(each)  # type: ignore[no-untyped-call]


def _leave(mode: TorchDispatchMode) -> None:
    """Takes a mode from the stack as its base class does: without what a class of the caller's adds to that."""
    TorchDispatchMode.__exit__(mode, None, None, None)  # type: ignore[no-untyped-call]


def is_traced() -> bool:
    """Whether a graph is made of what is called (`make_fx`, `torch.jit.trace`): what it misses is fixed there."""
    if _C._get_tracing_state() is not None:
        return True
    return in_dispatch_mode() and _C._get_dispatch_mode(_C._TorchDispatchModeKey.PROXY) is not None


def is_observed() -> bool:
    """Whether somebody looks at how tensors come about: a dispatch mode, `torch.func`, a trace, the profiler."""
    return (
        in_dispatch_mode()
        or _C._functorch.peek_interpreter_stack() is not None
        or is_traced()
        or profiler_is_running()
    )


def is_functorch_wrapper(t: Tensor) -> bool:
    """Whether `t` stands for another tensor inside `torch.vmap`, `torch.func.grad` and the like."""
    return bool(_C._functorch.is_functorch_wrapped_tensor(t))


@contextmanager
def every_warning() -> Iterator[None]:
    """Lets PyTorch repeat the warnings that it otherwise gives once a process."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)
