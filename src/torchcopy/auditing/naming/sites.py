"""Which line of the program has called: found from the stack in about a microsecond, spelled out for the report."""

from __future__ import annotations

import ast
import linecache
import os
import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType

import torch

from ..records import SourceLine
from ..watching.stand_ins import is_stand_in
from .expressions import call_at

_USER, _LIBRARY, _TORCH, _OURS = range(4)
_PACKAGE = str(Path(__file__).parents[2]) + os.sep
_TORCH_PACKAGE = str(Path(torch.__file__).parent) + os.sep
_INSTALLED = tuple(
    {str(Path(sysconfig.get_path(name))) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_GRAPH_CODE = "<eval_with_key>"  # what torch.fx makes of a graph
_BY_AUTOGRAD = -1
_MOST_CODES = 10_000
_START = os.getcwd()  # noqa: PTH109  # programs may go elsewhere
_Key = tuple[int, int, int]  # a code object, the instruction in it, and the function of a library that it called


class Sites:
    """Numbers for lines of the program, the same for the same call. 0 stands for no line of the program."""

    def __init__(self) -> None:
        self._kinds: dict[int, int] = {}
        self._codes: dict[int, CodeType] = {}  # kept, so that their identities stay theirs
        self._numbers: dict[_Key, int] = {(0, 0, 0): 0}
        self._keys: list[_Key] = [(0, 0, 0)]
        self._lines: dict[int, SourceLine] = {}

    # --- while the program runs -----------------------------------------------------------------------------------

    def of(self, frame: FrameType | None) -> int:
        """The line that `frame` is at, or that has called it: the innermost one that is the program's own."""
        kinds = self._kinds
        through = 0
        library: FrameType | None = None
        while frame is not None:
            identity = id(frame.f_code)
            kind = kinds.get(identity)
            if kind is None:
                kind = self._classify(frame.f_code)
            if kind == _USER:
                break
            if kind != _OURS:
                if not through:
                    through = identity
                if kind == _LIBRARY and library is None:
                    library = frame
            frame = frame.f_back
        if frame is None:
            frame = library
            if frame is None:
                return 0
        key = (id(frame.f_code), frame.f_lasti, through)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return number

    def here(self) -> int:
        """The line of the program that has called the function that asks."""
        return self.of(sys._getframe(1))

    def add(self, line: SourceLine) -> int:
        """A number for a line that was found in the source, not on the stack."""
        key = (0, len(self._keys), 0)
        number = self._numbers[key] = len(self._keys)
        self._keys.append(key)
        self._lines[number] = line
        return number

    def in_backward(self, number: int) -> int:
        """The same line, for what autograd has done on its behalf."""
        identity, instruction, _ = self._keys[number]
        key = (identity, instruction, _BY_AUTOGRAD)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._keys)
            self._keys.append(key)
            if not identity:
                self._lines[found] = self._lines[number]
        return found

    def is_program_code(self, code: CodeType) -> bool:
        """Whether a code object is the program's own."""
        kind = self._kinds.get(id(code))
        return (self._classify(code) if kind is None else kind) == _USER

    def _classify(self, code: CodeType) -> int:
        path = code.co_filename
        if path.startswith("<") and len(self._codes) >= _MOST_CODES:
            return _OURS  # of `eval` in a loop: from now on it is who calls it
        if is_stand_in(code):
            kind = _OURS
        elif path.startswith("<"):
            kind = _LIBRARY if path.startswith("<frozen") else _TORCH if path.startswith(_GRAPH_CODE) else _USER
        else:
            path = os.path.abspath(path)  # noqa: PTH100  # links stay: they say where it was imported from
            if path.startswith(_PACKAGE):
                kind = _OURS
            elif path.startswith(_TORCH_PACKAGE):
                kind = _TORCH
            else:
                kind = _LIBRARY if path.startswith(_INSTALLED) else _USER
        self._codes[id(code)] = code
        self._kinds[id(code)] = kind
        return kind

    # --- for the report -------------------------------------------------------------------------------------------

    def is_direct(self, number: int) -> bool:
        """Whether the program's own line made the call itself, without a library between."""
        identity, _, through = self._keys[number]
        return not through and self._kinds.get(identity) == _USER

    def code_of(self, number: int) -> CodeType | None:
        """The code object that the line belongs to."""
        return self._codes.get(self._keys[number][0])

    def through(self, number: int) -> CodeType | None:
        """The function of a library that the line was in."""
        return self._codes.get(self._keys[number][2])

    def is_gradcheck(self, number: int) -> bool:
        """Whether `torch.autograd.gradcheck` was at work: it changes its inputs a little, and puts them back."""
        through = self.through(number)
        return through is not None and Path(through.co_filename).name == "gradcheck.py"

    def line(self, number: int) -> SourceLine:
        """The line in full."""
        found = self._lines.get(number)
        if found is None:
            found = self._lines[number] = self._spell_out(number)
        return found

    def call(self, number: int) -> ast.Call | None:
        """The call that the line makes, as its source has it."""
        return call_at(self.code_of(number), self._keys[number][1])

    def line_number(self, number: int) -> tuple[str, int]:
        """File and line, under which equal findings are one."""
        line = self.line(number)
        return line.path, line.line

    def files(self) -> set[str]:
        """The files of the program in which something was seen."""
        return {
            self._codes[identity].co_filename for identity, _, _ in self._keys if self._kinds.get(identity) == _USER
        }

    def _spell_out(self, number: int) -> SourceLine:
        code = self.code_of(number)
        if code is None:
            return SourceLine(path="<unknown>", line=0)
        position = list(code.co_positions())[self._keys[number][1] // 2]
        line, end_line, column, end_column = position
        line = line or code.co_firstlineno
        text = linecache.getline(code.co_filename, line).rstrip("\n")
        through = self.through(number)
        return SourceLine(
            path=shown_path(code.co_filename),
            line=line,
            column=None if column is None else _characters(text, column) + 1,
            end_column=None if end_column is None or end_line != line else _characters(text, end_column) + 1,
            text=text,
            function=code.co_qualname,
            through="" if through is None else _function_name(through),
        )


def shown_path(path: str) -> str:
    """A file as a report names it: relative where it lies below the working directory."""
    if path.startswith("<"):
        return path
    try:
        relative = os.path.relpath(path, _START)
    except ValueError:  # another drive
        return path
    return path if relative.startswith(os.pardir) else relative


def _characters(text: str, byte_offset: int) -> int:
    return len(text.encode("utf-8")[:byte_offset].decode("utf-8", errors="ignore"))


def _function_name(code: CodeType) -> str:
    path = Path(code.co_filename)
    for root in sorted({_TORCH_PACKAGE, *_INSTALLED}, key=len, reverse=True):
        if code.co_filename.startswith(root):
            base = Path(root).parent if root == _TORCH_PACKAGE else Path(root)
            parts = path.relative_to(base).with_suffix("").parts
            return ".".join((*(part for part in parts if part != "__init__"), code.co_qualname))
    return code.co_qualname
