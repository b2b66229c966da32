"""Runs the self-check of each private entry point once, at first use, and keeps what it found out."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
from typing import Any

from .entry_points import ENTRY_POINTS


@dataclasses.dataclass(frozen=True)
class FastPath:
    """What the self-check found out about one private entry point.

    Attributes:
        name: the entry point, as PyTorch calls it.
        purpose: what torchcopy uses it for.
        works: whether the self-check saw it do what torchcopy needs.
        detail: why not, or what was seen.
        fallback: what is done where it does not work.
    """

    name: str
    purpose: str
    works: bool
    detail: str
    fallback: str

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)


_check_lock = threading.Lock()


@functools.cache
def _checked(name: str) -> FastPath:
    entry = next(e for e in ENTRY_POINTS if e.name == name)
    outcome: list[FastPath] = []

    def run() -> None:
        try:
            works, detail = True, entry.check()
        except Exception as error:  # noqa: BLE001  # a private function may fail in any way; that is the question
            lines = str(error).strip().splitlines() or [type(error).__name__]
            works, detail = False, lines[0]
        outcome.append(FastPath(name, entry.purpose, works, detail, entry.fallback))

    # On a thread of its own, where no mode of the caller's (a default device, a fake-tensor mode, inference
    # mode) can decide what the check sees.
    thread = threading.Thread(target=run, name="torchcopy-self-check")
    thread.start()
    thread.join()
    return outcome[0]


def _renew_check_lock() -> None:
    """A thread that was inside the lock when the process was forked does not exist in the child."""
    global _check_lock
    _check_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_check_lock)


def works(name: str) -> bool:
    """Whether the entry point called `name` passed its self-check on the installed torch."""
    with _check_lock:
        return _checked(name).works


def fast_paths() -> tuple[FastPath, ...]:
    """What the self-check found for every private entry point torchcopy would like to use."""
    with _check_lock:
        return tuple(_checked(entry.name) for entry in ENTRY_POINTS)
