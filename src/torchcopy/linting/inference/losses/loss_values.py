"""What is followed of losses: values, the parts of what a call gives, and what keeps them or is given them."""

from __future__ import annotations

import ast
import dataclasses
from typing import TypeAlias

Part: TypeAlias = tuple[int | str, ...]
"""Which part of what an expression gives: places in tuples, keys of dicts, attributes; () for the whole."""


ANY = "*"


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """What a place was bound to.

    Attributes:
        place: how it is written.
        node: the statement that bound it, or the parameter.
        source: the expression.
        part: which part of what `source` gives; `ANY` in it for an entry that no constant names.
        is_changed: entries of it were replaced since: it is not what was given.
    """

    place: str
    node: ast.AST
    source: ast.expr | None = None
    part: Part = ()
    is_changed: bool = False

    @property
    def name(self) -> str:
        """What it is called: the key or attribute, where it is read as one, else its place."""
        last = self.part[-1] if self.part else 0
        is_read_as_it = not self.place or self.place.endswith(("]", f".{last}"))
        return last if isinstance(last, str) and is_read_as_it else self.place


@dataclasses.dataclass(frozen=True, slots=True)
class KeptValue:
    """A statement that keeps a value for longer.

    Attributes:
        node: the expression that is kept.
        statement: the statement or call.
        keeper: the place that keeps it.
        is_sum: whether it is added up rather than listed.
        values: what `node` may be.
        inside: the statement of a called function of the same file that keeps it, if that does.
    """

    node: ast.expr
    statement: ast.AST
    keeper: str
    is_sum: bool
    values: frozenset[Value]
    inside: ast.AST | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """An argument of a call that may be a loss.

    Attributes:
        node: the argument, or the entry of a dict that is the argument.
        argument: what the call is given.
        call: the call.
        values: what `node` may be.
        is_named: its name is that of a loss; otherwise it is a parameter that is given on.
        key: which entry of the argument it is, where that is a dict.
    """

    node: ast.expr
    argument: ast.expr
    call: ast.Call
    values: frozenset[Value]
    is_named: bool
    key: str | int | None = None


def key_in(place: str, of: str) -> str | int | None:
    """Which entry or attribute of an object a place is: "loss" for `found["loss"]` and for `found.loss`."""
    inside = place.removeprefix(of)
    if inside == place or inside[:1] not in ("[", "."):
        return None
    if inside[0] == ".":
        return inside[1:] if inside[1:].isidentifier() else None  # not of an attribute in it
    try:
        key = ast.literal_eval(inside[1:-1])
    except (SyntaxError, ValueError):
        return None  # of an entry in an entry, or under a name
    return key if isinstance(key, str | int) else None
