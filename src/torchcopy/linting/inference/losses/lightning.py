"""Lightning's contract: what `training_step` returns is differentiated, without a `backward()` in the source."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..scopes import Scope
from ..summaries import bases_of

if TYPE_CHECKING:
    from ..file_facts import FileFacts

TRAINING_STEP = "training_step"


def is_training_step(facts: FileFacts, scope: Scope) -> bool:
    """Whether a function is the `training_step` of a `LightningModule` that Lightning optimizes."""
    owner = scope.owner
    if scope.name != TRAINING_STEP or owner is None or not isinstance(owner.node, ast.ClassDef):
        return False
    if any(each in facts.source.text for each in ("automatic_optimization", "manual_backward(")):
        return False
    if any(_is_lightning(facts, each) for each in owner.node.bases):
        return True
    return any(
        _is_lightning(base_facts, each)
        for base_facts, base in bases_of(facts, owner)
        if isinstance(base.node, ast.ClassDef)
        for each in base.node.bases
    )


def _is_lightning(facts: FileFacts, base: ast.expr) -> bool:
    return "lightning" in facts.resolve(base).lower()
