"""Whether two tensors have one version counter."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor

from .self_checks import works

_C: Any = torch._C
_version_lock = threading.Lock()


def shares_version_counter(a: Tensor, b: Tensor) -> bool | None:
    """Whether a write to one of `a`, `b` is seen in the other's `_version`; None where that cannot be told.

    Counters that differ in value are two counters, and nothing is touched. Where the values are equal, `a`'s
    counter is moved and put back at once: PyTorch offers no way to compare the counters themselves.
    """
    if a.is_inference() or b.is_inference():
        return None
    if a is b:
        return True
    if a._version != b._version:
        return False
    if not works("torch._C._autograd._unsafe_set_version_counter"):
        return None
    with _version_lock:
        before = a._version
        probe = before + 1
        _C._autograd._unsafe_set_version_counter((a,), (probe,))
        try:
            return b._version == probe
        finally:
            _C._autograd._unsafe_set_version_counter((a,), (before,))
