"""TC105: tensors with a graph that are kept from one iteration to the next, more and more of them."""

from __future__ import annotations

import ast
import bisect
import dataclasses
import gc
import linecache
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from itertools import compress
from types import FrameType, ModuleType
from typing import Any

from torch import Tensor

from ... import _torch_private
from ..._tensors import format_bytes
from ..finding_log import FindingLog, Found
from ..records import SourceLine
from ..sites import Sites, shown_path
from .saved_values import nodes_from

_FIRST_LOOK, _FEWEST = 4, 3
_MOST_UNUSED = 8
_MOST_ENDS = 100_000
_NO_NUMBER = 1 << 62


@dataclasses.dataclass
class Unused:
    """Graphs that were kept before any backward had run."""

    count: int
    bytes: int
    nodes: int
    name: str
    line: SourceLine | None


class KeptGraphs:
    """Looks, now and then, which tensors of earlier iterations still have a graph.

    An iteration ends with an optimizer's step; in a program without one, with a backward.
    """

    def __init__(self, findings: FindingLog, sites: Sites, line_of_node: Callable[[int], int]) -> None:
        self._findings, self._sites, self._line_of_node = findings, sites, line_of_node
        self._ends: list[int] = []  # the number of the next node, at the end of each of the latest iterations
        self._count = 0
        self._by_step = False
        self._next_look = _FIRST_LOOK
        self._told: dict[int, Found] = {}
        self._unused: dict[int, Unused] = {}
        self._ran_backward = False
        self._thread, self._is_off = threading.get_ident(), False
        self._before: dict[int, tuple[int, int]] = {}  # by line, at the last look: oldest iteration, how many

    def ran_backward(self) -> None:
        """A backward has run, of whatever kind: the program uses its graphs."""
        self._ran_backward = True

    def iteration_ended(self, *, by_step: bool, frame: FrameType | None) -> None:
        """A step was taken, or a backward was run."""
        if threading.get_ident() != self._thread:
            self._is_off = True  # each thread numbers its nodes by itself: iterations cannot be told apart
            return
        if by_step and not self._by_step:
            self._by_step = True
            self._ends.clear()
            self._count, self._next_look = 0, _FIRST_LOOK
        elif self._by_step and not by_step:
            return
        self._ends.append(_torch_private.next_node_number())
        self._count += 1
        if len(self._ends) > _MOST_ENDS:
            del self._ends[: _MOST_ENDS // 2]
        if self._count >= self._next_look:
            self._next_look = 2 * self._count
            self.look(frame)

    def look(self, frame: FrameType | None) -> None:
        """Looks at all tensors of the program that have a graph."""
        if len(self._ends) < _FEWEST or self._is_off:
            return
        kept: dict[int, list[Tensor]] = defaultdict(list)
        for t in _with_graph():
            number = _torch_private.node_number(t.grad_fn)
            if number < _NO_NUMBER:
                kept[self._line_of_node(number)].append(t)
        least = max(_FEWEST, len(self._ends) // 4)
        for site, tensors in kept.items():
            if not site:
                continue
            steps = {self._iteration_of(_torch_private.node_number(t.grad_fn)) for t in tensors}
            oldest, count = self._before.get(site, (-1, 0))
            self._before[site] = min(steps), len(steps)
            grows = oldest == min(steps) and count < len(steps) and len(steps) >= _FEWEST
            if len(steps) > least or grows:
                self._tell(site, tensors, len(steps), frame)
            else:
                self._look_along(site, tensors, least, frame)

    def look_without_backward(self, frame: FrameType | None) -> None:
        """Graphs that are kept while no backward has run at all may be for nothing: the end of the audit tells."""
        if self._ran_backward:
            return
        kept: dict[int, list[Tensor]] = defaultdict(list)
        for t in _with_graph():
            number = _torch_private.node_number(t.grad_fn)
            if number < _NO_NUMBER:
                kept[self._line_of_node(number)].append(t)
        for site, tensors in kept.items():
            if site and len(tensors) >= _MOST_UNUSED and not _are_one_graph(tensors):
                name, line = _where_kept(tensors, frame, self._sites)
                self._unused[site] = Unused(len(tensors), *_held_by(tensors), name, line)

    def finish(self) -> None:
        """The audit is over: did a backward ever use the graphs?"""
        for site, unused in self._unused.items() if not self._ran_backward else ():
            places = [("made here, with its graph", site)]
            if unused.line is not None:
                places.insert(0, (f"kept in `{unused.name}` here", self._sites.add(unused.line)))
            self._findings.add(
                "TC105",
                f"{unused.count} tensors kept their graphs alive, and no backward ever ran",
                places,
                fix="run the model under `torch.no_grad()` or `torch.inference_mode()`",
                notes=[
                    f"held by them when it was seen: {format_bytes(unused.bytes)}, {unused.nodes} nodes of graphs"
                ],
                size=unused.bytes,
                count=unused.count,
            )

    def _look_along(self, site: int, tensors: list[Tensor], least: int, frame: FrameType | None) -> None:
        """One tensor may hold the graphs of all iterations, if it is added to in each."""
        for t in tensors[:4]:
            numbers = [_torch_private.node_number(node) for node in nodes_from([t])]
            steps = {self._iteration_of(number) for number in numbers if number < _NO_NUMBER}
            if len(steps) > least:
                self._tell(site, [t], len(steps), frame)
                return

    def _iteration_of(self, number: int) -> int:
        return bisect.bisect_right(self._ends, number)

    def _tell(self, site: int, tensors: list[Tensor], steps: int, frame: FrameType | None) -> None:
        size, nodes = _held_by(tensors)
        what = f"{len(tensors)} tensors keep" if len(tensors) > 1 else "one tensor keeps"
        found = self._told.get(site)
        if found is None:
            enough = len(tensors) >= _FEWEST
            name, line = _where_kept(tensors, frame, self._sites) if enough else ("", None)
            places = [("made here, with its graph", site)]
            if line is not None:
                places.insert(0, (f"kept in `{name}` here", self._sites.add(line)))
            found = self._told[site] = self._findings.add(
                "TC105", "", places, fix="keep the value without its graph: `loss.detach()`, or `loss.item()`"
            )
        found.message = f"{what} the graphs of {steps} iterations alive, and more with each"
        found.notes = (f"held by them when it was last seen: {format_bytes(size)} and {nodes} nodes of graphs",)
        found.bytes, found.count = size, len(tensors)


def _with_graph() -> Iterator[Tensor]:
    is_tensor: dict[type, bool] = {}
    objects = gc.get_objects()
    for kind in set(map(type, objects)):
        is_tensor[kind] = issubclass(kind, Tensor)
    for each in list(compress(objects, map(is_tensor.__getitem__, map(type, objects)))):
        try:
            if each.grad_fn is not None and not _torch_private.is_functorch_wrapper(each):
                yield each
        except RuntimeError:
            continue


def _are_one_graph(tensors: list[Tensor]) -> bool:
    """Whether some are what others were computed from: one model's layers, and no iterations."""
    roots = {t.grad_fn for t in tensors}
    return any(
        each in roots
        for t in tensors[-4:]
        for node in nodes_from([t])
        for each, _ in node.next_functions
        if each is not None
    )


def _held_by(tensors: list[Tensor]) -> tuple[int, int]:
    """Bytes that the graphs of some tensors have saved, their own with them, and the number of nodes."""
    storages: dict[int, int] = {}
    nodes = nodes_from(tensors)
    values = [*tensors, *(value for node in nodes for _, value in _torch_private.saved_values(node))]
    for t in values:
        if not (t.is_leaf and t.requires_grad):  # parameters are there anyway
            try:
                storages[_torch_private.storage_id(t)] = t.untyped_storage().nbytes()
            except RuntimeError:
                storages[id(t)] = t.nbytes
    return sum(storages.values()), len(nodes)


def _where_kept(tensors: list[Tensor], frame: FrameType | None, sites: Sites) -> tuple[str, SourceLine | None]:
    """The name of the list or dict that has the tensors, and the line that fills it."""
    containers = _containers_of(tensors)
    frame = frame or sys._getframe()
    while frame is not None:
        if sites.is_program_code(frame.f_code):
            for scope in (frame.f_locals, frame.f_globals):
                for name, value in list(scope.items()):
                    for found in _names_in(name, value, containers, 3):
                        line = _line_that_fills(found, frame.f_code.co_filename)
                        if line is not None:
                            return found, line
        frame = frame.f_back
    return "", None


def _containers_of(tensors: list[Tensor]) -> set[int]:
    """The lists, dicts and the like that have the first of the tensors, and those that have them: by identity."""
    found: set[int] = set()
    level: list[Any] = tensors[:1]
    for _ in range(3):
        level = [
            each
            for each in gc.get_referrers(*level)
            if isinstance(each, (list, dict, tuple, set, deque)) and each is not tensors and each is not level
        ][:64]
        found.update(map(id, level))
        if not level:
            break
    return found


def _names_in(name: str, value: Any, containers: set[int], depth: int) -> Iterator[str]:
    """The expressions for the containers that can be reached from a name."""
    if id(value) in containers and not isinstance(value, tuple):
        yield name
    if not depth:
        return
    if isinstance(value, dict):
        inner = [
            (f"{name}[{key!r}]", each) for key, each in list(value.items())[:100] if isinstance(key, (str, int))
        ]
    elif isinstance(value, (type, Tensor, ModuleType)) or not hasattr(value, "__dict__"):
        return
    else:
        inner = [(f"{name}.{key}", each) for key, each in list(vars(value).items())[:100]]
    for path, each in inner:
        yield from _names_in(path, each, containers, depth - 1)


def _line_that_fills(name: str, path: str) -> SourceLine | None:
    """The line with `name.append(…)`, `name += …` or `name[…] = …`."""
    lines = linecache.getlines(path)
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return None
    own = f"self.{name.partition('.')[2]}"
    for node in ast.walk(tree):
        target: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("append", "extend", "add", "insert", "appendleft", "setdefault"):
                target = node.func.value
        elif isinstance(node, ast.AugAssign):
            target = node.target
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            target = node.targets[0].value
        if target is not None and ast.unparse(target) in (name, own):
            assert isinstance(node, (ast.Call, ast.AugAssign, ast.Assign))
            text = lines[node.lineno - 1].rstrip("\n")
            end = node.end_col_offset if node.end_lineno == node.lineno else None
            return SourceLine(
                path=shown_path(path),
                line=node.lineno,
                column=node.col_offset + 1,
                end_column=None if end is None else end + 1,
                text=text,
            )
    return None
