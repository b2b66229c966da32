"""Copying from a GPU on a stream of its own, beside the one that trains."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def recorded_event(live: Sequence[Tensor]) -> torch.cuda.Event | None:
    """An event after all that the current stream was told to do with the live tensors; None without a GPU."""
    if not any(t.is_cuda for t in live):
        return None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return event


def side_stream(event: torch.cuda.Event | None) -> torch.cuda.Stream | None:
    """A stream on which nothing runs before the event; None without one."""
    if event is None:
        return None
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_event(event)
    return stream


class on:  # noqa: N801  # a context manager
    """Runs the body on a stream, and waits for what it began there."""

    def __init__(self, stream: torch.cuda.Stream | None) -> None:
        self._stream = stream
        self._context = None if stream is None else torch.cuda.stream(stream)

    def __enter__(self) -> None:
        if self._context is not None:
            self._context.__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: object) -> None:
        if self._context is not None and self._stream is not None:
            self._stream.synchronize()
            self._context.__exit__(*error)


def to_pinned(sources: Sequence[Tensor]) -> list[Tensor]:
    """Copies in page-locked memory: the GPU writes there by itself."""
    copies = [torch.empty_like(t, device="cpu", pin_memory=t.is_cuda) for t in sources]
    for c, t in zip(copies, sources, strict=True):
        c.copy_(t, non_blocking=True)
    return copies
