"""Forward-mode differentiation, which `torch.no_grad()` leaves on."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch

_forward: Any = torch.autograd.forward_ad


def no_grad() -> AbstractContextManager[Any]:
    """`torch.no_grad()`; inside a `torch.autograd.forward_ad.dual_level()`, tangents are not followed either."""
    if getattr(_forward, "_current_level", -1) < 0:
        return torch.no_grad()
    both = ExitStack()
    both.enter_context(torch.no_grad())
    both.enter_context(_forward._set_fwd_grad_enabled(False))
    return both
