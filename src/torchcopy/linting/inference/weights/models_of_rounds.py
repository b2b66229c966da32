"""Models that each round of a training keeps as they are: `models.append(model)`, each the one that is trained."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import Loop, called_name, path_of, root_name, walk
from ..scopes import Scope
from .keepers import put_in
from .places import entry_path
from .rounds import is_in_last_round, is_in_one_round, is_of_each_round
from .things import is_module
from .training import updates

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_COUNTS = ("len", "print", "id", "bool")


@dataclasses.dataclass(frozen=True, slots=True)
class KeptModel:
    """A model that is put into a list or dict in each round, and not copied.

    Attributes:
        place: the list or dict.
        module: the model, as it is written.
        node: what is put in.
        read: where the list or dict is read when the rounds are over.
    """

    place: str
    module: str
    node: ast.expr
    read: ast.expr


def models_of_rounds(facts: FileFacts, scope: Scope) -> Iterator[KeptModel]:
    """What the loops of a function keep in each round of a model that they train, and that is read behind them."""
    if not scope.has(ast.For, ast.While):
        return
    for place, at, value in _put_in_rounds(facts, scope):
        for node in _written_there(value):
            module = path_of(node)
            if module is None or not is_module(facts, node, module):
                continue
            loop = next((each for each in facts.loops(at) if _trains(facts, scope, each, module, place)), None)
            if loop is None or is_in_one_round(facts, at) or is_in_last_round(facts, at) or _is_left(facts, at):
                continue
            read = _read_behind(scope, loop, place)
            if read is not None:
                yield KeptModel(place, module, node, read)


def _put_in_rounds(facts: FileFacts, scope: Scope) -> Iterator[tuple[str, ast.AST, ast.expr]]:
    """The list or dict, the statement or call, and what it puts in: under a key of the round in a dict."""
    for call in scope.nodes(ast.Call):
        for of, value in put_in(call):
            place = entry_path(of)
            if place is not None:
                yield place, call, value
    for at in scope.nodes(ast.Assign):
        target = at.targets[0]
        if isinstance(target, ast.Subscript) and is_of_each_round(facts, target):
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


def _trains(facts: FileFacts, scope: Scope, loop: Loop, module: str, place: str) -> bool:
    """Whether a loop trains one model in all of its rounds, and fills what was begun before it."""
    bound = [_place_bound(each) for each in walk(loop)]
    roots = {root_name(module), module, root_name(place), place}
    if roots & {*bound} or _is_made_elsewhere(facts, scope, module):
        return False
    return any(updates(facts, each, module) for each in walk(loop) if isinstance(each, ast.Call))


def _place_bound(node: ast.AST) -> str | None:
    is_bound = isinstance(node, ast.Name | ast.Attribute) and type(node.ctx) is ast.Store
    return path_of(node) if is_bound else None


def _is_made_elsewhere(facts: FileFacts, scope: Scope, module: str) -> bool:
    """Whether another method than the constructor binds an attribute, maybe in each round."""
    if "." not in module:
        return False
    bound = facts.bindings_of_path(scope, module)
    made_in = [facts.scope_of(each.node).name for each in bound]
    return not bound or any(each != "__init__" for each in made_in)


def _is_left(facts: FileFacts, at: ast.AST) -> bool:
    """Whether the round that keeps the model is the last one: a `break` or `return` follows."""
    statement = facts.statement_of(at)
    for around in facts.above(at):
        for body in (getattr(around, "body", None), getattr(around, "orelse", None)):
            if isinstance(body, list) and statement in body:
                return any(isinstance(each, ast.Break | ast.Return) for each in body[body.index(statement) :])
    return False


def _read_behind(scope: Scope, loop: Loop, place: str) -> ast.expr | None:
    """Where what was filled is read when the loop is over, for more than how many there are."""
    end = loop.end_lineno or loop.lineno
    counted = {given for call in scope.nodes(ast.Call) if called_name(call) in _COUNTS for given in call.args}
    reads: list[ast.Name | ast.Attribute] = [*scope.nodes(ast.Name), *scope.nodes(ast.Attribute)]
    behind = [
        each
        for each in reads
        if type(each.ctx) is ast.Load and each.lineno > end and each not in counted and path_of(each) == place
    ]
    return min(behind, key=lambda each: (each.lineno, each.col_offset), default=None)
