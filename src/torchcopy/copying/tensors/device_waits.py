"""Waiting until the bytes that are under way to or from a device have arrived."""

from __future__ import annotations

from collections.abc import Iterable

import torch

_NOTHING_UNDER_WAY = frozenset({"cpu", "meta"})


def wait_for(devices: Iterable[torch.device]) -> None:
    """Waits for what the current stream of each device has been given so far, or for the whole device if need be.

    Backends without streams of their own (MPS) offer only that.
    """
    for device in devices:
        if device.type in _NOTHING_UNDER_WAY:
            continue
        backend = torch.get_device_module(device)
        if hasattr(backend, "current_stream"):
            backend.current_stream(device).synchronize()
        else:
            backend.synchronize()
