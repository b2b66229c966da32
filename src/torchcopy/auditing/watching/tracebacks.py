"""Tracebacks as they would be without an audit."""

from __future__ import annotations

from pathlib import Path
from types import FrameType, TracebackType

from .stand_ins import is_stand_in

_ROOM = str(Path(__file__).parent.parent)
# What of torch stands between a call and a mode, and between a mode and what it passes the call on to.
_LEADS_TO_A_MODE = (
    "torch/utils/_stats.py",
    "torch/overrides.py",
    "torch/_compile.py",
    "torch/_dynamo/eval_frame.py",
)
_FOLLOWS_A_MODE = ("torch/_ops.py",)


def strip_frames(error: BaseException) -> None:
    """Takes the frames of an audit out of the tracebacks of an exception and of all that it leads to."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = _stripped(each.__traceback__)
        left += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            left += each.exceptions


def _stripped(traceback: TracebackType | None) -> TracebackType | None:
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    ours = [_is_ours(entry.tb_frame) for entry in entries]
    if not any(ours):
        return entries[0] if entries else None
    dropped = list(ours)
    for k in range(1, len(entries)):  # forwards: what a mode has called
        dropped[k] |= dropped[k - 1] and _is_in(entries[k].tb_frame, _FOLLOWS_A_MODE)
    for k in reversed(range(len(entries) - 1)):  # backwards: what has called a mode
        dropped[k] |= dropped[k + 1] and _is_in(entries[k].tb_frame, _LEADS_TO_A_MODE)
    kept: TracebackType | None = None
    for entry, drop in reversed(list(zip(entries, dropped, strict=True))):
        if not drop:
            kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_ROOM) or is_stand_in(frame.f_code)


def _is_in(frame: FrameType, files: tuple[str, ...]) -> bool:
    return frame.f_code.co_filename.replace("\\", "/").endswith(files)
