"""In which rounds of a loop something runs: in one alone, in the last one, every few, where a figure is better."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import assigned, names_in, path_of, walk
from .places import entry_path

if TYPE_CHECKING:
    from ..file_facts import FileFacts
    from ..scopes import Scope
    from .kept import Kept


ROUNDS = ("epoch", "step", "gen", "generation", "round", "round_idx", "iteration", "episode")
"""Names by which a function is told in which round of a training it is called."""


SIGNS_OF_TRAINING = ("optimizer", ".step(", "epoch", "def train", "def fit")
"""In the text of a file: something is trained there."""


def is_in_one_round(facts: FileFacts, node: ast.AST) -> bool:
    """Whether a node runs in one round of a loop around it: under `if epoch == 5`, but not `if epoch % 5 == 0`."""
    counters = {name for loop in facts.loops(node) if isinstance(loop, ast.For) for name in _counters(loop)}
    return any(
        bool(counters & {each.id for side in sides for each in names_in(side)})
        and not any(isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mod) for side in sides)
        for _, sides in _equalities(facts, node)
    )


def is_in_last_round(facts: FileFacts, node: ast.AST) -> bool:
    """Whether a node runs in the last round of its loop alone: under `if epoch == epochs - 1`."""
    loop = next((each for each in facts.loops(node) if isinstance(each, ast.For)), None)
    if loop is None:
        return False
    counters = _counters(loop)
    for test, sides in _equalities(facts, node):
        is_inside = loop in facts.loops(test)
        for counter, last in (sides, sides[::-1]):
            match counter, last:
                case ast.Name(id=name), ast.BinOp(op=ast.Sub(), right=ast.Constant(value=1)) if is_inside:
                    if name in counters:
                        return True
    return False


def is_of_each_round(facts: FileFacts, target: ast.expr) -> bool:
    """Whether each round of a loop stores to another entry: `states[epoch]`, `states[epoch + 1]`."""
    if not isinstance(target, ast.Subscript):
        return False
    counters = {name for loop in facts.loops(target) if isinstance(loop, ast.For) for name in _counters(loop)}
    return any(each.id in counters for each in names_in(target.slice))


def is_one_of_each_round(facts: FileFacts, kept: Kept, call: ast.Call) -> bool:
    """Whether a loop goes through models, keeps the state of each, and what trains in it is for one of them."""
    around = facts.loops(call)
    return any(loop in around for loop in loops_through_models(facts, kept))


def loops_through_models(facts: FileFacts, kept: Kept) -> Iterator[ast.For]:
    """The loops around a state that go through models, of each of which it is: `for net in nets`, `nets[i]`."""
    container, _, _ = kept.module.partition("[*]")
    if container == kept.module:
        return
    keys = {
        name.id
        for each in walk(kept.call)
        if isinstance(each, ast.Subscript) and entry_path(each) == f"{container}[*]"
        for name in names_in(each.slice)
    }
    for loop in facts.loops(kept.call):
        if isinstance(loop, ast.For) and (
            keys & _counters(loop) or any(path_of(each) == container for each in walk(loop.iter))
        ):
            yield loop


def is_at_times(facts: FileFacts, node: ast.AST, later: ast.AST) -> bool:
    """Whether a node runs in one branch of an `if` alone, and a later one without it too."""
    below = node
    around = [*facts.above(later)]
    for at in facts.above(node):
        if isinstance(at, ast.If) and below is not at.test:
            branch = at.body if below in at.body else at.orelse
            if at not in around or not any(each in around or each is later for each in branch):
                return True
        below = at
    return False


def is_kept_as_better(facts: FileFacts, node: ast.AST) -> bool:
    """Whether a node runs where a figure is better than all before, and takes their place: `if loss < lowest`."""
    counters = {name for loop in facts.loops(node) if isinstance(loop, ast.For) for name in _counters(loop)}
    below = node
    for at in facts.above(node):
        if isinstance(at, ast.If) and below in at.body:
            pairs = {frozenset(pair) for each in at.body for pair in _assigned_places(each)}
            for sides in _orders(at.test):
                if len(sides) == 2 and sides in pairs and not sides & counters:
                    return True
        below = at
    return False


def _orders(test: ast.expr) -> Iterator[frozenset[str]]:
    """The places that a test has in order: `loss` and `lowest` of `loss < lowest`."""
    for each in test.values if isinstance(test, ast.BoolOp) else [test]:
        match each:
            case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()], comparators=[right]):
                yield frozenset(path for one in (left, right) if (path := path_of(one)) is not None)


def _assigned_places(at: ast.stmt) -> Iterator[tuple[str, str]]:
    """The places that a statement gives the value of another one, with that: `lowest` and `loss`."""
    for target, value in assigned(at) if isinstance(at, ast.Assign) else ():
        place, of = path_of(target), path_of(value)
        if place is not None and of is not None:
            yield place, of


def is_every_few_rounds(node: ast.AST) -> bool:
    """Whether a node is a branch of one in every few rounds: `if epoch % 10 == 0`, `if not step % 5`."""
    test = node.test if isinstance(node, ast.If) else None
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return any(_has_remainder(each) for each in parts if each is not None)


def _has_remainder(test: ast.expr) -> bool:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) else [test]
    return any(
        isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod) and not isinstance(each.left, ast.Constant)
        for each in sides
    )


def is_other_branch(facts: FileFacts, one: ast.AST, other: ast.AST) -> bool:
    """Whether two nodes are in different branches of one `if`, so that only one of them runs."""
    below: dict[ast.AST, ast.AST] = {}
    at = one
    for above in facts.above(one):
        below[above] = at
        at = above
    at = other
    for above in facts.above(other):
        if above in below:
            first = below[above]
            both = isinstance(above, ast.If) and above.test is not first and above.test is not at
            return both and (first in above.body) != (at in above.body)  # type: ignore[attr-defined]
        at = above
    return False


def _counters(loop: ast.For) -> set[str]:
    return {each.id for each in names_in(loop.target)}


def _equalities(facts: FileFacts, node: ast.AST) -> Iterator[tuple[ast.Compare, tuple[ast.expr, ast.expr]]]:
    """The comparisons `a == b` that hold where a node runs, with their sides: by the `if`s around."""
    below = node
    for at in facts.above(node):
        if isinstance(at, ast.If) and below in at.body:
            is_both = isinstance(at.test, ast.BoolOp) and isinstance(at.test.op, ast.And)
            for test in at.test.values if is_both else [at.test]:  # type: ignore[attr-defined]
                match test:
                    case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                        yield test, (left, right)
        below = at


def is_of_a_round(keeper: Scope) -> bool:
    """Whether a method is one that a training calls in each round: it is told which."""
    return any(each.arg in ROUNDS for each in keeper.parameters)
