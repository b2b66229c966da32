"""Models that each round of a training keeps as they are: `models.append(model)`, each the one that is trained."""

from __future__ import annotations

import ast
import bisect
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import Loop, called_name, method_call, path_of, root_name, walk
from ..scopes import Scope
from .keepers import put_in
from .rounds import is_in_last_round, is_in_one_round, is_of_each_round
from .things import is_module
from .training import updates

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_COUNTS = ("len", "print", "id", "bool")
_FILLS = ("append", "add", "extend", "insert", "update", "clear", "put")
_EMPTIES = ("clear", "pop", "popleft", "popitem", "get", "get_nowait", "remove")


@dataclasses.dataclass(frozen=True, slots=True)
class KeptModel:
    """A model that rounds of a training put into a list or dict, and do not copy.

    Attributes:
        place: the list or dict.
        module: the model, as it is written.
        node: the model, where it is put in.
        read: where the list or dict is read when the rounds are over.
    """

    place: str
    module: str
    node: ast.expr
    read: ast.expr


def models_of_rounds(facts: FileFacts, scope: Scope) -> Iterator[KeptModel]:
    """What the loops of a function keep, as it is, of a model that they train, and that is read behind them."""
    if not scope.has(ast.For, ast.While):
        return
    inside: dict[Loop, _Inside] = {}
    reads: dict[str, list[ast.Name | ast.Attribute]] | None = None
    for place, at, value in _put_in_rounds(facts, scope):
        loops = facts.loops(at)
        made = [each.value for each in facts.bindings_of_path(scope, place)]
        is_short = any(isinstance(each, ast.Call) and called_name(each) == "deque" for each in made)
        if not loops or is_short or _runs_once(facts, at, place):
            continue
        for node in _written_there(value):
            module = path_of(node)
            if module is None or not is_module(facts, node, module) or _is_made_elsewhere(facts, scope, module):
                continue
            for loop in loops:
                known = inside[loop] = inside.get(loop) or _Inside(loop)
                if not known.is_of_one(facts, module, place):
                    continue
                reads = _reads_by_place(scope) if reads is None else reads
                if (read := _read_behind(reads.get(place, []), loop)) is not None:
                    yield KeptModel(place, module, node, read)
                    break


def _put_in_rounds(facts: FileFacts, scope: Scope) -> Iterator[tuple[str, ast.AST, ast.expr]]:
    """The list or dict, the statement or call, and what it puts in: into a dict by assignment, under a counter."""
    for call in scope.nodes(ast.Call):
        for of, value in put_in(call):
            place = path_of(of)
            if place is not None and called_name(call) != "add":  # a set keeps one of each
                yield place, call, value
    for at in scope.nodes(ast.Assign):
        target = at.targets[0]
        is_of_few = isinstance(target, ast.Subscript) and isinstance(target.slice, ast.BinOp)  # `[step % 2]`
        if isinstance(target, ast.Subscript) and not is_of_few and is_of_each_round(facts, target):
            place = path_of(target.value)
            if place is not None:
                yield place, at, at.value


def _written_there(value: ast.expr) -> Iterator[ast.expr]:
    """What is put in, or the entries of the tuple, list or dict that is."""
    match value:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Dict(values=elements):
            yield from (each for each in elements if isinstance(each, ast.Name | ast.Attribute))
        case ast.Name() | ast.Attribute():
            yield value
        case ast.Call(func=ast.Attribute(value=given, attr="eval" | "cpu" | "cuda"), args=[], keywords=[]):
            yield from _written_there(given)  # which give the module itself


class _Inside:
    """What a loop binds, calls and empties; asked of each loop once."""

    def __init__(self, loop: Loop) -> None:
        nodes = [*walk(loop)]
        self.bound = {path for each in nodes if (path := _stored_path(each)) is not None}
        self.calls = [each for each in nodes if isinstance(each, ast.Call)]
        self.emptied = {
            path
            for each in self.calls
            if called_name(each) in _EMPTIES and (path := path_of(method_call(each, *_EMPTIES))) is not None
        }
        self.emptied |= {path for each in nodes if (path := _replaced_by_place(each)) is not None}
        self.trained: dict[str, bool] = {}

    def is_of_one(self, facts: FileFacts, module: str, place: str) -> bool:
        """Whether the loop trains one model in all of its rounds, and fills what was begun before it."""
        roots = {root_name(module), module, root_name(place), place}
        if roots & self.bound or place in self.emptied:
            return False
        if module not in self.trained:
            self.trained[module] = any(updates(facts, each, module) for each in self.calls)
        return self.trained[module]


def _replaced_by_place(node: ast.AST) -> str | None:
    """The list of which an entry is replaced: `models` of `models[-1] = copy.deepcopy(models[-1])`."""
    match node:
        case ast.Subscript(value=of, slice=ast.Constant() | ast.UnaryOp(), ctx=ast.Store()):
            return path_of(of)
    return None


def _stored_path(node: ast.AST) -> str | None:
    is_stored = isinstance(node, ast.Name | ast.Attribute) and type(node.ctx) is ast.Store
    return path_of(node) if is_stored else None


def _is_made_elsewhere(facts: FileFacts, scope: Scope, module: str) -> bool:
    """Whether another function, or method than the constructor, binds the model, maybe in each round."""
    if "." not in module:
        return any(module in each.names for inner in scope.inner for each in inner.nodes(ast.Nonlocal))
    bound = facts.bindings_of_path(scope, module)
    made_in = [facts.scope_of(each.node).name for each in bound]
    return not bound or any(each != "__init__" for each in made_in)


def _runs_once(facts: FileFacts, at: ast.AST, place: str) -> bool:
    """Whether what keeps a model may run in one round of its loop alone: none follows, or a test asks for it."""
    if is_in_one_round(facts, at) or is_in_last_round(facts, at):
        return True
    below = at
    for above in facts.above(at):
        for name in ("body", "orelse", "handlers", "finalbody"):
            body = getattr(above, name, None)
            if isinstance(body, list) and below in body:
                after = body[body.index(below) :]
                if any(isinstance(each, ast.Break | ast.Return | ast.Raise) for each in after):
                    return True
        if isinstance(above, ast.For | ast.While):
            return False
        if isinstance(above, ast.If) and below is not above.test:
            is_asked = any(path_of(each) == place for each in ast.walk(above.test))  # `if not kept`
            loop = facts.loops(at)[0]
            if is_asked or isinstance(loop, ast.While):  # `while not done`, where the branch tells that it is
                return True
        below = above
    return False


def _reads_by_place(scope: Scope) -> dict[str, list[ast.Name | ast.Attribute]]:
    """Where each name and attribute stands in a function, but for where it is only filled or counted."""
    left_alone: set[ast.AST] = set()
    for node in ast.walk(scope.node):
        match node:
            case ast.Call() if called_name(node) in _COUNTS:
                left_alone |= {*node.args}
            case ast.Attribute(value=of, attr=name) if name in _FILLS:
                left_alone.add(of)
            case ast.Subscript(value=of, slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))):
                left_alone.add(of)  # the last one is what it is to be
            case ast.If(test=test) | ast.While(test=test) | ast.UnaryOp(operand=test):
                left_alone.add(test)
    reads: dict[str, list[ast.Name | ast.Attribute]] = {}
    for node in ast.walk(scope.node):
        if isinstance(node, ast.Name | ast.Attribute) and node not in left_alone:
            place = path_of(node)
            if place is not None:
                reads.setdefault(place, []).append(node)
    for each in reads.values():
        each.sort(key=lambda one: (one.lineno, one.col_offset))
    return reads


def _read_behind(reads: list[ast.Name | ast.Attribute], loop: Loop) -> ast.expr | None:
    """Where older ones of what was filled may be read when the loop is over; nowhere, if it is bound anew there."""
    end = loop.end_lineno or loop.lineno
    first = bisect.bisect_right(reads, end, key=lambda each: each.lineno)
    return reads[first] if first < len(reads) and type(reads[first].ctx) is ast.Load else None
