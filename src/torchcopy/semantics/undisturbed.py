"""Measuring as if nothing else were going on: away from the caller's modes, one measurement at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import torch

from .. import _torch_private

R = TypeVar("R")

# The profiler, the warning filters and the trace of memory exist once a process.
_one_at_a_time = threading.Lock()
_worker = threading.local()


def run_undisturbed(call: Callable[[], R]) -> R:
    """Runs `call` on a thread of its own and returns what it returns, or raises what it raises.

    Grad mode, inference mode, autocast, a default device, fake tensors and `torch.func` transforms belong to a
    thread: on a fresh one, none of the caller's is at work. The default dtype, which belongs to the process, is
    float32 meanwhile and put back afterwards, also where `call` has set it.
    """
    if getattr(_worker, "busy", False):
        return call()
    returned: list[R] = []
    raised: list[BaseException] = []

    def work() -> None:
        _worker.busy = True
        dtype = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        try:
            returned.append(call())
        except BaseException as error:  # noqa: BLE001  # raised again on the caller's thread
            raised.append(error)
        finally:
            torch.set_default_dtype(dtype)

    with _one_at_a_time:
        _torch_private.wake_profiler()
        # A daemon, so that Ctrl-C in the caller ends the program and not only the wait.
        thread = threading.Thread(target=work, name="torchcopy-measurement", daemon=True)
        thread.start()
        thread.join()
    if raised:
        raise raised[0]
    return returned[0]
