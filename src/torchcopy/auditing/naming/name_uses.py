"""Which names of the running functions have an object, and whether the program will use one of them from here on.

What is done with an object that is no tensor is not seen. What can be known is the program's text: from the
instruction that a function is at, does every way on lead through a line that reads the name, before the name gets
another value? Only then is it said to be used.
"""

from __future__ import annotations

import ast
import dataclasses
import dis
import linecache
from collections import deque
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, Literal

from ..records import SourceLine
from .name_nodes import Held, Kind, Source
from .program_frames import values_in
from .sites import Sites, shown_path

_LONGEST_SOURCE, _MOST_INSTRUCTIONS, _MOST_ITEMS = 1_000_000, 20_000, 2_000


@dataclasses.dataclass(frozen=True)
class Use:
    """A line that is bound to use a name.

    Attributes:
        site: its number.
        again: whether the program may come back from there to where it is now with the same value in the name.
    """

    site: int
    again: bool


class NameUses:
    """Looks names up, and reads what follows; what it has read of a function it keeps."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._flows: dict[CodeType, _Flow] = {}
        self._sources: dict[str, Source | None] = {}
        self._lines: dict[tuple[str, int, int], int] = {}

    def holders(self, frame: FrameType | None, is_it: Callable[[Any], bool]) -> Iterator[Held]:
        """The names on the stack whose value is what is looked for, or has it, one step further in."""
        while frame is not None:
            if self._sites.is_program_code(frame.f_code):
                for name, value in _variables(frame):
                    if is_it(value):
                        yield Held(frame, name)
                        continue
                    key = _key_in(value, is_it)
                    if key is not None:
                        yield Held(frame, name, "", key[0], True)
                        continue
                    for attribute, inner in _attributes(value):
                        if is_it(inner):
                            yield Held(frame, name, attribute)
                        elif (key := _key_in(inner, is_it)) is not None:
                            yield Held(frame, name, attribute, key[0], True)
            frame = frame.f_back

    def next_use(self, held: Held) -> Use | None:
        """The line that will use a name, whichever way the program goes; None where there is a way without."""
        return self._next_use(held, held.frame.f_lasti)

    def reads(self, held: Held, after: int) -> bool:
        """Whether the function reads what the name has, in its line `after` or below."""
        flow = self._flow(held.frame.f_code)
        if flow is None:
            return False
        kinds = flow.kinds(held)
        lines = (i.positions.lineno if i.positions else None for i in flow.instructions)
        return any(kind == "read" and (line or 0) >= after for kind, line in zip(kinds, lines, strict=True))

    def writes(self, held: Held, after: int) -> list[int]:
        """The lines of the function, from `after` on, that write to what the name has."""
        flow = self._flow(held.frame.f_code)
        found = {}
        for instruction, kind in zip(flow.instructions, flow.kinds(held), strict=True) if flow else ():
            line = instruction.positions.lineno if instruction.positions else None
            if kind == "written" and line is not None and line >= after:
                found[line] = self._site(held.frame.f_code, instruction)
        return list(found.values())

    def is_written_at(self, site: int) -> bool:
        """Whether the line itself writes to what its call returns: `t.numpy()[:] = 0`."""
        call, code = self._sites.call(site), self._sites.code_of(site)
        if call is None or code is None:
            return False
        line = self._sites.line(site)
        source = self._source(code.co_filename)
        return source is not None and source.call_is_written(line.line, line.column)

    def only_shows(self, site: int) -> bool:
        """Whether what the line's call returns is only compared or printed: an address, not a way to the memory."""
        code, line = self._sites.code_of(site), self._sites.line(site)
        source = self._source(code.co_filename) if code is not None else None
        return source is not None and source.call_is_shown(line.line, line.column)

    def _next_use(self, held: Held, at: int) -> Use | None:
        code = held.frame.f_code
        flow = self._flow(code)
        if flow is None:
            return None
        kinds = flow.kinds(held)
        found = flow.first_use(kinds, at)
        if found is None:
            return None
        if kinds[found] == "returned":
            return self._use_by_caller(held)
        return Use(self._site(code, flow.instructions[found]), flow.comes_back(kinds, found, at))

    def _use_by_caller(self, held: Held) -> Use | None:
        frame = held.frame.f_back
        if frame is None or not self._sites.is_program_code(frame.f_code):
            return None
        flow = self._flow(frame.f_code)
        at = flow.index(frame.f_lasti) + 1 if flow else 0
        if flow is None or at >= len(flow.instructions):
            return None
        after = flow.instructions[at]
        if after.opname.startswith("STORE_") and isinstance(after.argval, str):
            if after.opname == "STORE_ATTR":
                return None
            stored = dataclasses.replace(held, frame=frame, name=after.argval, attribute="")
            return self._next_use(stored, after.offset)
        if after.opname in ("POP_TOP", "RETURN_VALUE", "UNPACK_SEQUENCE", "GET_AWAITABLE"):
            return None
        return Use(self._sites.of(frame), again=False)

    def _site(self, code: CodeType, instruction: dis.Instruction) -> int:
        place = instruction.positions
        assert place is not None
        line, column = place.lineno or code.co_firstlineno, place.col_offset or 0
        key = (code.co_filename, line, column)
        if key not in self._lines:
            text = linecache.getline(code.co_filename, line).rstrip("\n")
            end = place.end_col_offset if place.end_lineno == line else None
            self._lines[key] = self._sites.add(
                SourceLine(
                    path=shown_path(code.co_filename),
                    line=line,
                    column=_characters(text, column) + 1,
                    end_column=None if end is None else _characters(text, end) + 1,
                    text=text,
                    function=code.co_qualname,
                )
            )
        return self._lines[key]

    def _flow(self, code: CodeType) -> _Flow | None:
        found = self._flows.get(code)
        if found is None:
            source = self._source(code.co_filename)
            if source is None or len(code.co_code) > 2 * _MOST_INSTRUCTIONS:
                return None
            found = self._flows[code] = _Flow(code, source)
        return found

    def _source(self, path: str) -> Source | None:
        if path not in self._sources:
            text = "".join(linecache.getlines(path))
            try:
                self._sources[path] = Source(text) if 0 < len(text) <= _LONGEST_SOURCE else None
            except (SyntaxError, ValueError, RecursionError):
                self._sources[path] = None
        return self._sources[path]


class _Flow:
    """The instructions of a function, and which follow upon which."""

    def __init__(self, code: CodeType, source: Source) -> None:
        self.instructions = [i for i in dis.get_instructions(code) if i.opname != "CACHE"]
        self._source = source
        self._at = {i.offset: index for index, i in enumerate(self.instructions)}
        self._next = [self._following(index) for index in range(len(self.instructions))]
        self._kinds: dict[tuple[Any, ...], list[Kind | Literal["killed"]]] = {}

    def index(self, offset: int) -> int:
        """The instruction at an offset, or that whose cache that is."""
        while offset not in self._at and offset > 0:
            offset -= 2
        return self._at.get(offset, 0)

    def _following(self, index: int) -> tuple[int, ...]:
        instruction = self.instructions[index]
        name = instruction.opname
        if name in ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"):
            return ()
        following = [index + 1] if index + 1 < len(self.instructions) else []
        if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
            target = self._at.get(instruction.argval)
            if name.startswith(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE")):
                following = []
            if target is not None:
                following.append(target)
        return tuple(following)

    def kinds(self, held: Held) -> list[Any]:
        """What each instruction does with what a name has."""
        key = (held.name, held.attribute, held.key, held.in_container)
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds[key] = [self._kind(i, held) for i in self.instructions]
            if len(self._kinds) > 256:
                self._kinds.clear()
        return found

    def _kind(self, instruction: dis.Instruction, held: Held) -> Any:
        names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        name, place = instruction.opname, instruction.positions
        if held.name not in names or name.startswith(("LOAD_CONST", "LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR")):
            return ""
        if name.startswith("DELETE_"):
            return "killed"
        if place is None or not name.startswith(("LOAD_", "STORE_")) or name == "LOAD_CLOSURE":
            return ""
        node = self._source.name_at(place.lineno, place.col_offset, held.name)
        if name.startswith("STORE_"):
            augmented = node is not None and isinstance(self._source.parents.get(node), ast.AugAssign)
            return "" if augmented else "killed"
        return "" if node is None else self._source.kind(node, held)

    def first_use(self, kinds: list[Any], offset: int) -> int | None:
        """The nearest use, if every way from here leads through one. A way that raises leads nowhere."""
        at = self.index(offset)
        must = [True] * len(kinds)
        changed = True
        while changed:
            changed = False
            for index in reversed(range(len(kinds))):
                if must[index] and not self._leads_to_use(index, kinds, must):
                    must[index], changed = False, True
        if not self._next[at] or not all(must[each] for each in self._next[at]):
            return None
        return next((index for index in self._reached(at, kinds) if kinds[index] in _USES), None)

    def _leads_to_use(self, index: int, kinds: list[Any], must: list[bool]) -> bool:
        if kinds[index] in _USES:
            return True
        if kinds[index] == "killed":
            return False
        following = self._next[index]
        if not following:
            return self.instructions[index].opname in ("RAISE_VARARGS", "RERAISE")
        return all(must[each] for each in following)

    def _reached(self, at: int, kinds: list[Any]) -> Iterator[int]:
        seen, waiting = set(self._next[at]), deque(self._next[at])
        while waiting:
            index = waiting.popleft()
            yield index
            if kinds[index] == "killed":
                continue
            for each in self._next[index]:
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)

    def comes_back(self, kinds: list[Any], use: int, offset: int) -> bool:
        """Whether the program can come from a use back to where it is, with the same value in the name."""
        return self.index(offset) in self._reached(use, kinds)


_USES = frozenset({"read", "passed", "returned"})


def _variables(frame: FrameType) -> list[tuple[str, Any]]:
    """The names that a function mentions, with their values."""
    code = frame.f_code
    mentioned = {*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars}
    own = values_in(frame, mentioned)
    names = frame.f_globals
    return [*own.items(), *((name, names[name]) for name in code.co_names if name in names and name not in own)]


def _attributes(value: Any) -> list[tuple[str, Any]]:
    held = None if isinstance(value, type) else getattr(type(value), "__dictoffset__", 0) and _dict_of(value)
    return list(held.items())[:_MOST_ITEMS] if type(held) is dict else []


def _dict_of(value: Any) -> Any:
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def _key_in(value: Any, is_it: Callable[[Any], bool]) -> tuple[Any] | None:
    """Where a list or dict has it, as a tuple of one; None where it has not."""
    kind = type(value)
    if kind is dict:
        pairs = list(value.items())[:_MOST_ITEMS] if len(value) <= _MOST_ITEMS else []
    elif kind in (list, tuple, deque):
        pairs = list(enumerate(value)) if len(value) <= _MOST_ITEMS else list(enumerate(list(value)[:_MOST_ITEMS]))
    else:
        return None
    for key, each in pairs:
        if is_it(each) or (type(each) in (list, tuple) and any(is_it(inner) for inner in each[:16])):
            return _plain(key)
        if type(each) is dict and len(each) <= 256 and any(is_it(inner) for inner in list(each.values())):
            return _plain(key)
    return None


def _plain(key: Any) -> tuple[Any]:
    return (key if type(key) in (str, int) else None,)


def _characters(text: str, byte_offset: int) -> int:
    return len(text.encode("utf-8")[:byte_offset].decode("utf-8", errors="ignore"))
