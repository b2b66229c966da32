"""Calls on behalf of a line of the program.

Who warns names the line that has called it, by counting frames. A function that stands at that line, with its file
and its globals, is what is counted, and what the filters of warnings and the `once` of a line go by.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any

_MARK = "torchcopy_calls"


def _template() -> CodeType:
    names: dict[str, Any] = {}
    exec(f"def call({_MARK}, args, kwargs):\n    return {_MARK}(*args, **kwargs)", names)
    code: CodeType = names["call"].__code__
    return code


_TEMPLATE = _template()


class StandIns:
    """Calls others as if a line of the program did so itself: by a code object for each call.

    The function around it is made anew each time: it has the globals of the program, which it would keep alive.
    """

    def __init__(self) -> None:
        self._codes: dict[tuple[int, int], tuple[CodeType, CodeType]] = {}

    def call(
        self, frame: FrameType, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Calls a function as the line that `frame` is at does; of that, an exception shows nothing."""
        try:
            return FunctionType(self._at(frame), frame.f_globals)(function, args, kwargs)
        except BaseException as error:
            own = error.__traceback__
            if own is not None and own.tb_next is not None and is_stand_in(own.tb_next.tb_frame.f_code):
                own.tb_next = own.tb_next.tb_next
            raise

    def _at(self, frame: FrameType) -> CodeType:
        code = frame.f_code
        if code.co_filename.startswith("<"):  # of `eval`, which may make one after another
            return _made(frame)
        key = id(code), frame.f_lasti
        there = self._codes.get(key)
        if there is None:
            there = self._codes[key] = code, _made(frame)
        return there[1]


def is_stand_in(code: CodeType) -> bool:
    """Whether a code object is that of a function that stands in for a line."""
    return code.co_varnames[:1] == (_MARK,)


def _made(frame: FrameType) -> CodeType:
    before = frame.f_code
    line = frame.f_lineno or before.co_firstlineno  # what a compiler has made may have no line
    return _TEMPLATE.replace(
        co_filename=before.co_filename,
        co_name=before.co_name,
        co_qualname=before.co_qualname,
        co_firstlineno=max(0, line - 1),  # its own second line is the program's
    )
