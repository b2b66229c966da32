"""What holds where, in order of execution: an analysis that runs forward over the statements of a function."""

from __future__ import annotations

import ast
from typing import Generic, TypeVar

from .nodes import LOOPS

F = TypeVar("F")
_MOST_ROUNDS = 4  # of a loop, until nothing new is known at its head
_DEEPEST = 5  # loops in loops: those further inside are gone through once, or each would double the time


class Flow(Generic[F]):
    """Carries a set of facts through the statements, as the program may run: `x` may be unsynchronised, say.

    A subclass says in `visit` what a simple statement or the head of a compound one does to the facts. Where paths
    meet, a fact holds if it holds on one of them. A loop is run until nothing new is known at its head, so that
    `visit` sees a statement several times: collect findings in a set or dict keyed by node.

    Example of a subclass: `inference/weights/state_flow.py`.
    """

    def __init__(self) -> None:
        self.loops: list[ast.stmt] = []
        """The loops around what is visited, outermost first."""
        self._breaks: list[frozenset[F]] = []
        self._continues: list[frozenset[F]] = []
        self._raised: list[frozenset[F]] = []
        self.at_exit: frozenset[F] = frozenset()
        """What holds where the function ends or returns."""

    def visit(self, node: ast.AST, facts: frozenset[F]) -> frozenset[F]:
        """The facts after a simple statement, or after a head: a test, an iterable, a target, a `with` item."""
        raise NotImplementedError

    def after_with(self, at: ast.With | ast.AsyncWith, facts: frozenset[F]) -> frozenset[F]:  # noqa: ARG002
        """The facts after the block of a `with` is left."""
        return facts

    def run(self, body: list[ast.stmt], facts: frozenset[F] = frozenset()) -> None:
        """Through a whole function."""
        end = self._block(body, facts)
        if end is not None:
            self.at_exit |= end

    def _block(self, body: list[ast.stmt], facts: frozenset[F] | None) -> frozenset[F] | None:
        for statement in body:
            if facts is None:
                return None
            facts = self._statement(statement, facts)
            if self._raised and facts is not None:
                self._raised[-1] |= facts
        return facts

    def _statement(self, at: ast.stmt, facts: frozenset[F]) -> frozenset[F] | None:
        match at:
            case ast.If():
                facts = self.visit(at.test, facts)
                return _either(self._block(at.body, facts), self._block(at.orelse, facts))
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(at, facts)
            case ast.With() | ast.AsyncWith():
                for item in at.items:
                    facts = self.visit(item, facts)
                inside = self._block(at.body, facts)
                return None if inside is None else self.after_with(at, inside)
            case ast.Try() | ast.TryStar():
                return self._try(at, facts)
            case ast.Match():
                facts = self.visit(at.subject, facts)
                end: frozenset[F] | None = facts
                for case in at.cases:
                    end = _either(end, self._block(case.body, facts))
                return end
            case ast.Return():
                facts = self.visit(at, facts)
                self.at_exit |= facts
                if self._raised:
                    self._raised[-1] |= facts  # what is returned is worked out before `finally`
                return None
            case ast.Raise():
                self.visit(at, facts)
                return None
            case ast.Break():
                if self._breaks:
                    self._breaks[-1] |= facts
                return None
            case ast.Continue():
                if self._continues:
                    self._continues[-1] |= facts
                return None
        return self.visit(at, facts)

    def _loop(self, at: ast.For | ast.AsyncFor | ast.While, facts: frozenset[F]) -> frozenset[F] | None:
        if not isinstance(at, ast.While):
            facts = self.visit(at.iter, facts)
        head, left = facts, frozenset[F]()
        self.loops.append(at)
        for _ in range(_MOST_ROUNDS if len(self.loops) <= _DEEPEST else 1):
            self._breaks.append(frozenset())
            self._continues.append(frozenset())
            begin = self.visit(at.test if isinstance(at, ast.While) else at.target, head)
            end = self._block(at.body, begin)
            left |= self._breaks.pop()
            after = head | (end or frozenset()) | self._continues.pop()
            if after == head:
                break
            head = after
        self.loops.pop()
        if isinstance(at, ast.While):
            endless = isinstance(at.test, ast.Constant) and bool(at.test.value)
            out = None if endless else self.visit(at.test, head)
        else:
            out = head
        out = self._block(at.orelse, out)
        has_break = any(isinstance(each, ast.Break) for each in _own_statements(at.body))
        return _either(out, left) if has_break else out

    def _try(self, at: ast.Try | ast.TryStar, facts: frozenset[F]) -> frozenset[F] | None:
        self._raised.append(facts)
        end = self._block(at.body, facts)
        raised = self._raised.pop()
        end = self._block(at.orelse, end)
        for handler in at.handlers:
            end = _either(end, self._block(handler.body, raised))
        if not at.finalbody:
            return end
        if end is None:
            self._block(at.finalbody, raised)
            return None
        return self._block(at.finalbody, end)


def _either(one: frozenset[F] | None, other: frozenset[F] | None) -> frozenset[F] | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _own_statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a loop's body, not those of loops and functions inside."""
    found: list[ast.stmt] = []
    waiting = list(body)
    while waiting:
        at = waiting.pop()
        found.append(at)
        if isinstance(at, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(at, LOOPS):
            waiting += at.orelse
            continue
        for field in ("body", "orelse", "finalbody"):
            waiting += getattr(at, field, [])
        for handler in [*getattr(at, "handlers", []), *getattr(at, "cases", [])]:
            waiting += handler.body
    return found
