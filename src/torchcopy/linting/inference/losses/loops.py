"""What a loop goes through: batches, models, losses, a few things, or a number of rounds; and how it ends."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ..nodes import Loop, called_name, names_in, path_of
from ..summaries import is_optimizer_step
from .loss_values import ANY, KeptValue

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_LOADERS = re.compile(r"loader|dataset|batches$|(^|_)(dl|train_data|trainset|data_iter|train_iter)$")
_FUNCTIONS = re.compile(r"loss|crit|func|(^|_)(fn|f)$")  # what a loop tries, one after the other
_PARTS = ("model", "net", "optimizer", "task", "task_name", "domain", "modality", "device")


def is_over_batches(loop: Loop | ast.comprehension) -> bool:
    """Whether a loop goes through a data loader, as its name tells."""
    if not isinstance(loop, ast.For | ast.comprehension):
        return False
    named = (each for each in ast.walk(loop.iter) if isinstance(each, ast.Name | ast.Attribute))
    return any(_LOADERS.search((each.id if isinstance(each, ast.Name) else each.attr).lower()) for each in named)


def is_over_models(loop: Loop | ast.comprehension) -> bool:
    """Whether a loop goes over models, tasks or devices, each with one step or a part of one."""
    if not isinstance(loop, ast.For | ast.comprehension):
        return False
    if (path_of(loop.iter) or "").endswith("loader"):
        return False  # with a `domain` or `task` in each batch
    names = [each.id for each in names_in(loop.target)]
    if any(each in _PARTS for each in names):
        return True
    return (path_of(loop.iter) or "").endswith(("_names", "tasks", "domains", "modalities"))


def is_over_many(loop: Loop) -> bool:
    """Whether a loop counts to a number that is given: `range(epochs)`, and not a few tries."""
    through = loop.iter if isinstance(loop, ast.For) else None
    is_range = isinstance(through, ast.Call) and called_name(through) in ("range", "trange")
    return is_range and any(isinstance(each, ast.Name | ast.Attribute) for each in through.args)  # type: ignore[union-attr]


def is_over_few(loop: Loop, *, only_constants: bool) -> bool:
    """Whether a loop goes over what is written there one by one: no training."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Tuple | ast.List):
        return False
    if isinstance(loop.target, ast.Name) and _FUNCTIONS.search(loop.target.id.lower()):
        return True
    return not only_constants or all(isinstance(each, ast.Constant) for each in loop.iter.elts)


def is_over_losses(loop: Loop, kept: KeptValue) -> bool:
    """Whether a loop goes through losses, of which what is kept is one: `for loss in losses: total += loss`.

    One over a generator of the project, which trains, is a loop of its own.
    """
    names = {each.id for each in names_in(loop.target)} if isinstance(loop, ast.For) else set()
    inside = [*ast.walk(loop.iter)] if isinstance(loop, ast.For) else []
    is_yielded = any(each.part[:1] == (ANY,) and each.source in inside for each in kept.values)
    return isinstance(kept.node, ast.Name) and kept.node.id in names and not is_yielded


def takes_steps(facts: FileFacts, loop: Loop) -> bool:
    """Whether an optimizer takes a step in a loop."""
    known = facts.takes_steps
    if loop not in known:
        calls = (each for each in ast.walk(loop) if isinstance(each, ast.Call))
        known[loop] = any(is_optimizer_step(facts, each) for each in calls)
    return known[loop]


def is_left_in_its_first_round(facts: FileFacts, loop: Loop, keeps: ast.AST) -> bool:
    """Whether a loop ends with a `break` or `return`, for the one round in which it comes to what keeps a loss."""
    if not isinstance(loop.body[-1], ast.Break | ast.Return):
        return False
    return not any(
        isinstance(each, ast.Continue)
        and each.lineno > getattr(keeps, "lineno", 0)
        and facts.loops(each)[:1] == [loop]
        and not any(isinstance(at, ast.ExceptHandler) for at in facts.above(each))  # once more, after a failure
        for each in ast.walk(loop)
    )
