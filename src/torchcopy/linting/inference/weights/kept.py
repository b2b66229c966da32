"""One live state inside of an expression: whose it is, where it was taken, and what is to be told of it."""

from __future__ import annotations

import ast
import dataclasses

COPIED_ON_GPU = ("cpu", "to", "numpy")
"""Moves that copy what is on a GPU, and give back what is on the CPU as it is."""
DEEPEST = 7
"""Values in values, names of names: how far an expression is followed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """One live state inside of an expression.

    Attributes:
        suffix: where in the value it is: `['model']`, or nothing.
        module: where its module is written.
        call: the expression to report.
        copied_on_gpu: its values went through `.cpu()` or the like.
        optimizer: it is the state of an optimizer.
        alias: where it was kept before, if it is a second name or a shallow copy of that.
        is_returned: a function that `call` calls returns it.
        taken: where that function takes it, if it is in the same file.
        taken_elsewhere: where it takes it in another file: `agent.py:42`.
        is_left: the function leaves it in an object that it is given, and does not return it.
    """

    suffix: str
    module: str
    call: ast.expr
    copied_on_gpu: bool = False
    optimizer: bool = False
    alias: str = ""
    is_returned: bool = False
    taken: ast.expr | None = None
    taken_elsewhere: str = ""
    is_left: bool = False

    @property
    def order(self) -> tuple[bool, str, str, bool, int]:
        """Which of several is told, the same in each run: one of a model first, and one that is not moved."""
        return self.optimizer, self.module, self.suffix, self.copied_on_gpu, getattr(self.taken, "lineno", 0)

    @property
    def taking(self) -> tuple[ast.expr, ast.expr | None]:
        """Where it is taken: one call may give several."""
        return self.call, self.taken
