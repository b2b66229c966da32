"""TC301: `.data` of a tensor, where `detach()` reads and `no_grad` writes so that autograd knows of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..findings import Edit, Finding, Fix
from ..inference.file_facts import FileFacts
from ..inference.nodes import called_name, is_in_place
from ..inference.values.torch_names import GIVES_A_NEW_ONE

CODE = "TC301"
NEEDS = (".data",)


def check(facts: FileFacts) -> Iterator[Finding]:
    """`.data` of what is known to be a tensor."""
    for scope in facts.scopes:
        for node in scope.nodes(ast.Attribute):
            if node.attr != "data" or not facts.kind_of(node.value).is_tensor:
                continue
            if (statement := _writing(facts, node)) is not None:
                yield _written(facts, node, statement)
            elif type(node.ctx) is not ast.Load:
                yield _rebound(facts, node)
            else:
                yield _read(facts, node)


def _rebound(facts: FileFacts, node: ast.Attribute) -> Finding:
    written = facts.source.segment(node.value)
    message = (
        f"autograd does not see that `{written}` gets other data: where the shape stays, write "
        f"`{written}.copy_(…)` under `torch.no_grad()`"
    )
    return facts.source.finding(CODE, message, node)


def _read(facts: FileFacts, node: ast.Attribute) -> Finding:
    source = facts.source
    start, end = source.end(node) - len("data"), source.end(node)
    above = facts.parent(node)
    is_read_only = isinstance(above, ast.BinOp | ast.Compare | ast.UnaryOp) or (
        isinstance(above, ast.Attribute)
        and above.attr in GIVES_A_NEW_ONE
        and isinstance(facts.parent(above), ast.Call)
    )
    note = "a write through it counts for autograd: a backward that needs the old values raises"
    fix = Fix((Edit(start, end, "detach()"),), safe=is_read_only, note="" if is_read_only else note)
    return source.finding(CODE, "`.data` hides writes from autograd: read with `detach()`", node, fix=fix)


def _writing(facts: FileFacts, node: ast.Attribute) -> ast.stmt | None:
    """The statement that writes in place through `.data`: by a method, an operator or an item."""
    at: ast.AST = node
    above = facts.parent(at)
    while isinstance(above, ast.Subscript) and above.value is at:
        if type(above.ctx) is not ast.Load:
            return facts.statement_of(above)
        at, above = above, facts.parent(above)
    if isinstance(above, ast.AugAssign) and above.target is at:
        return above
    if isinstance(above, ast.Attribute) and is_in_place(above.attr):
        call = facts.parent(above)
        if isinstance(call, ast.Call) and called_name(call) == above.attr:
            return facts.statement_of(call)
    return None


def _written(facts: FileFacts, node: ast.Attribute, statement: ast.stmt) -> Finding:
    source = facts.source
    written = source.segment(node.value)
    message = f"autograd does not see this write: under `torch.no_grad()`, write into `{written}` itself"
    fix = None
    dot = source.text.rfind(".", 0, source.end(node))
    removed = Edit(dot, source.end(node), "")
    note = "the write counts for autograd: a backward that needs the old values raises"
    if source.text[dot : source.end(node)] == ".data":
        if facts.is_without_graph(node):
            fix = Fix((removed,), safe=False, note=note)
        elif (opened := _under_no_grad(facts, node, statement)) is not None:
            fix = Fix((opened, removed), safe=False, note=note)
    return source.finding(CODE, message, node, fix=fix)


def _under_no_grad(facts: FileFacts, node: ast.Attribute, statement: ast.stmt) -> Edit | None:
    """Puts `with torch.no_grad():` around a statement of one line that stands alone on it."""
    source = facts.source
    if facts.imports.get("torch") != "torch" or statement.lineno != statement.end_lineno:
        return None
    if not isinstance(statement, ast.Expr | ast.AugAssign | ast.Assign):
        return None
    if isinstance(statement, ast.Assign) and node in ast.walk(statement.value):
        return None  # `x = p.data.mul_(2)`: another tensor than `p`
    start = source.start(statement)
    line = source.line_at(statement.lineno)
    indent = line[: len(line) - len(line.lstrip())]
    rest = line[source.end(statement) - source.line_starts[statement.lineno - 1] :].lstrip()
    if start - source.line_starts[statement.lineno - 1] != len(indent) or (rest and not rest.startswith("#")):
        return None
    end = "\r\n" if "\r\n" in source.text else "\n"
    step = "\t" if indent.startswith("\t") else "    "
    return Edit(start, start, f"with torch.no_grad():{end}{indent}{step}")
