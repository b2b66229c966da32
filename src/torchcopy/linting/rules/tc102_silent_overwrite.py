"""TC102: `.data` of a tensor in a graph is written, after its value was saved for backward.

Only values that backward needs matter: writing others is how straight-through estimators are made. So the tensor
has to come from an operation that saves its result, or to have been a factor of one that saves its operands.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..findings import Finding
from ..inference.file_facts import FileFacts
from ..inference.nodes import called_name, is_in_place
from ..inference.scopes import Scope

CODE = "TC102"
NEEDS = (".data",)

_SAVES_RESULT = frozenset("sigmoid tanh softmax log_softmax exp sqrt rsqrt reciprocal tan expm1 sinh".split())
_SAVES_OPERANDS = frozenset("mul matmul mm bmm pow square prod cos sin log dot outer".split())
_OPERATORS = (ast.Mult, ast.Pow, ast.MatMult)


def check(facts: FileFacts) -> Iterator[Finding]:
    """Writes through `.data` that backward does not notice and that change what it computes."""
    for scope in facts.functions:
        for data in scope.nodes(ast.Attribute):
            if data.attr == "data" and isinstance(data.value, ast.Name):
                statement = _write(facts, data)
                if statement is None or facts.is_without_graph(data):
                    continue
                kind = facts.kind_of(data.value)
                if kind.name != "tensor" or kind.graph is not True:
                    continue
                why = _saved(facts, scope, data.value, statement)
                if why:
                    name = data.value.id
                    yield facts.source.finding(
                        CODE,
                        f"backward needs the value of `{name}` that this overwrites ({why}), and `.data` hides the "
                        f"write from autograd: compute a new tensor from `{name}.detach()`",
                        data,
                    )


def _write(facts: FileFacts, data: ast.Attribute) -> ast.stmt | None:
    """The statement in which `x.data` is written in place."""
    above = facts.parent(data)
    if isinstance(above, ast.Subscript) and type(above.ctx) is ast.Store:
        return facts.statement_of(above)
    if isinstance(above, ast.AugAssign) and above.target is data:
        return above
    call = facts.parent(above) if isinstance(above, ast.Attribute) else None
    if isinstance(call, ast.Call) and call.func is above and is_in_place(called_name(call)):
        return facts.statement_of(call)
    return None


def _saved(facts: FileFacts, scope: Scope, node: ast.Name, write: ast.stmt) -> str:
    """Why backward needs the tensor: its own operation saved it, or one before the write that it was given to."""
    last = facts.last_value(node)
    earlier = [each.value for each in facts.bindings(node) if getattr(each.node, "lineno", 0) < write.lineno]
    for value in earlier if last is None else [last]:
        if isinstance(value, ast.Call) and called_name(value) in _SAVES_RESULT:
            return f"`{called_name(value)}` saved its result"
    for each in scope.nodes(ast.Name):
        if each.id != node.id or type(each.ctx) is not ast.Load or each.lineno >= write.lineno:
            continue
        above = facts.parent(each)
        if isinstance(above, ast.BinOp) and isinstance(above.op, _OPERATORS) and _has_two_tensors(facts, above):
            return f"line {above.lineno} saved it"
        if not isinstance(above, ast.Call) or each not in above.args:
            continue
        if called_name(above) in _SAVES_OPERANDS and facts.resolve(above.func).startswith("torch."):
            return f"line {above.lineno} saved it"
    return ""


def _has_two_tensors(facts: FileFacts, node: ast.BinOp) -> bool:
    """Whether both factors are tensors, or one is raised to a power: a number times a tensor saves nothing."""
    if isinstance(node.op, ast.Pow):
        return isinstance(node.right, ast.Constant) and node.right.value != 1
    return facts.kind_of(node.left).is_tensor and facts.kind_of(node.right).is_tensor
