"""Which calls give one of PyTorch's own losses."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..nodes import strip_calls
from .loss_names import calls_loss

if TYPE_CHECKING:
    from ..file_facts import FileFacts


def is_loss_of_torch(facts: FileFacts, call: ast.Call) -> bool:
    """Whether a call gives one of PyTorch's own losses: `F.l1_loss(out, y)`, `mae(out, y)` with `nn.L1Loss()`."""
    if calls_loss(call) and facts.resolve(call.func).startswith("torch.nn.functional."):
        return True
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == "F":
        return calls_loss(call) and not facts.resolve(call.func)  # `F` comes by `import *`
    if isinstance(call.func, ast.Call):
        made: list[ast.expr | None] = [call.func]
    elif isinstance(call.func, ast.Attribute):
        made = [each.value for each in facts.attribute_bindings(call.func)]
    else:
        made = [each.value for each in facts.bindings(call.func)] if isinstance(call.func, ast.Name) else []
    made = [strip_calls(each, "to", "cuda")[0] if each is not None else None for each in made]
    resolved = [facts.resolve(each.func) if isinstance(each, ast.Call) else "" for each in made]
    return bool(resolved) and all(each.startswith("torch.nn.") and each.endswith("Loss") for each in resolved)
