"""TC110: a small view that is saved or kept: the whole storage of its base goes with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..findings import Finding, Fix
from ..inference.file_facts import FileFacts
from ..inference.losses.loss_rounds import repeats
from ..inference.losses.loss_values import KeptValue
from ..inference.nodes import called_name, path_of
from ..inference.scopes import Scope
from ..inference.values.memory import written_in

CODE = "TC110"
NEEDS = ("torch.save(", ".append(")

_SMALL = 16  # rows at most, of a slice that is called small
_JOINS = ("cat", "stack", "concat", "concatenate", "vstack", "hstack", "sum", "mean")


def check(facts: FileFacts) -> Iterator[Finding]:
    """Views given to `torch.save`, and small slices listed for longer than their base lives."""
    text = facts.source.text
    if "torch" not in text:
        return
    saves = "torch.save(" in text
    for scope in facts.functions:
        for call in scope.nodes(ast.Call):
            name = called_name(call)
            if saves and name == "save" and call.args and facts.resolve(call.func) == "torch.save":
                for view in _saved(call.args[0]):
                    if _is_part(facts, view):
                        yield _finding(facts, view, "`torch.save` writes the whole storage of", True)
            elif name == "append" and len(call.args) == 1 and isinstance(call.args[0], ast.Subscript):
                view = call.args[0]
                if _is_small(view) and _is_part(facts, view) and _outlives(facts, scope, call, view):
                    is_written = written_in(scope, view.value)
                    yield _finding(facts, view, "this view keeps the whole storage of", not is_written)


def _saved(node: ast.expr) -> list[ast.Subscript]:
    """The views in what is saved."""
    if isinstance(node, ast.Dict):
        return [each for each in node.values if isinstance(each, ast.Subscript)]
    if isinstance(node, ast.List | ast.Tuple):
        return [each for each in node.elts if isinstance(each, ast.Subscript)]
    return [node] if isinstance(node, ast.Subscript) else []


def _is_part(facts: FileFacts, node: ast.Subscript) -> bool:
    """Whether it is a view of a tensor by basic indexing that leaves something out, and so not a copy."""
    kind = facts.kind_of(node.value)
    if not kind.is_tensor:
        return False
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    smaller = False
    for part in parts:
        if isinstance(part, ast.Slice):
            smaller = smaller or _leaves_out_much(part)
        elif isinstance(part, ast.Constant) and (part.value is None or part.value is Ellipsis):
            pass
        elif isinstance(part, ast.Constant) and isinstance(part.value, bool):
            return False
        elif isinstance(part, ast.Constant) and part.value == 0:
            smaller = smaller or _is_made_by_torch(facts, node.value)
        elif facts.kind_of(part).name == "number":
            smaller = True
        else:
            return False
    return smaller


def _leaves_out_much(part: ast.Slice) -> bool:
    """Whether a slice is a part, and not all but a few: `x[:100]`, `x[-10:]`, not `x[1:]` or `x[:-n]`."""
    if isinstance(part.lower, ast.UnaryOp) and isinstance(part.lower.op, ast.USub):
        return True
    return part.upper is not None and not (
        isinstance(part.upper, ast.UnaryOp) and isinstance(part.upper.op, ast.USub)
    )


def _is_made_by_torch(facts: FileFacts, base: ast.expr) -> bool:
    """Whether a function of torch made the base here; of another one, `x[0]` may be the whole."""
    bound = facts.bindings(base) if isinstance(base, ast.Name) else []
    made = [each.value for each in bound if isinstance(each.value, ast.Call)]
    return bool(made) and all(facts.resolve(each.func).startswith("torch.") and each.args for each in made)


def _is_small(node: ast.Subscript) -> bool:
    """Whether a slice takes at most a few rows, by a number that is written there; of columns there may be few."""
    for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
        match part:
            case ast.Slice(lower=None, upper=ast.Constant(value=int() as count)):
                return 0 < count <= _SMALL
            case ast.Constant(value=int()):
                continue
            case _:
                return False
    return False


def _outlives(facts: FileFacts, scope: Scope, call: ast.Call, view: ast.Subscript) -> bool:
    """Whether the list goes on behind the round in which the base was made, and is not joined into one tensor."""
    keeper = path_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
    if keeper is None or not isinstance(view.value, ast.Name):
        return False
    loops = facts.loops(call)
    made = [facts.loops(each.node) for each in scope.bindings.get(view.value.id, []) if each.how == "value"]
    if not loops or not made or not all(loops[0] in each for each in made):
        return False
    if not repeats(facts, scope, KeptValue(view, call, keeper, False, frozenset())):
        return False
    for other in facts.functions:
        for join in other.nodes(ast.Call):
            if called_name(join) in _JOINS and any(path_of(each) == keeper for each in join.args):
                return False
    return True


def _finding(facts: FileFacts, view: ast.Subscript, what: str, is_safe: bool) -> Finding:
    source = facts.source
    text = source.segment(view)
    base = source.segment(view.value)
    note = "" if is_safe else "what is kept no longer follows the writes to its base"
    fix = Fix((source.replace(view, f"{text}.clone()"),), safe=is_safe, note=note)
    return source.finding(CODE, f"{what} `{base}`: copy the part, `{text}.clone()`", view, fix=fix)
