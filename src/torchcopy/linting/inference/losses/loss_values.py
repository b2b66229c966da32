"""What is followed of losses: values, the parts of what a call gives, and what keeps them or is given them."""

from __future__ import annotations

import ast
import dataclasses
import re
from typing import TypeAlias

_WEIGHTS = re.compile(r"(weight|coefs?|coeff|lambda|beta|scale|factor|rate|alpha|gamma)s?$|approx_?kl$")
LOSS_LIKE = re.compile(r"loss|penalt|reg|kl|nll|cost|energy|objective|diverg|elbo|entropy")

Part: TypeAlias = tuple[int | str, ...]
"""Which part of what an expression gives: places in tuples, keys of dicts, attributes; () for the whole."""


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """What a place was bound to.

    Attributes:
        place: how it is written.
        node: the statement that bound it, or the parameter.
        source: the expression.
        part: which part of what `source` gives.
    """

    place: str
    node: ast.AST
    source: ast.expr | None = None
    part: Part = ()

    @property
    def name(self) -> str:
        """What it is called: the key or attribute where it is one, else its place."""
        last = self.part[-1] if self.part else None
        return (
            last
            if isinstance(last, str) and (not self.place or self.place.endswith((f".{last}", "]")))
            else self.place
        )


@dataclasses.dataclass(frozen=True, slots=True)
class KeptValue:
    """A statement that keeps a value for longer.

    Attributes:
        node: the expression that is kept.
        statement: the statement or call.
        keeper: the place that keeps it.
        is_sum: whether it is added up rather than listed.
        values: what `node` may be.
    """

    node: ast.expr
    statement: ast.AST
    keeper: str
    is_sum: bool
    values: frozenset[Value]


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """An argument of a call that may be a loss.

    Attributes:
        node: the argument, or the entry of a dict that is the argument.
        argument: what the call is given.
        call: the call.
        values: what `node` may be.
        is_named: its name is that of a loss; otherwise it is a parameter that is given on.
    """

    node: ast.expr
    argument: ast.expr
    call: ast.Call
    values: frozenset[Value]
    is_named: bool


def key_in(place: str, of: str) -> str | None:
    """Which entry or attribute of an object a place is: "loss" for `found["loss"]` and for `found.loss`."""
    inside = place.removeprefix(of)
    if inside == place or inside[:1] not in ("[", "."):
        return None
    key = inside[2:-2] if inside[0] == "[" else inside[1:]
    return key if key.isidentifier() else None


def is_loss_like(place: str) -> bool:
    """Whether a place is named as a loss, and not as the weight of one, or as a measure of the step."""
    lower = place.lower()
    return LOSS_LIKE.search(lower) is not None and _WEIGHTS.search(lower) is None
