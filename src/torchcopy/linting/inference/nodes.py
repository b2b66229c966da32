"""Small questions about nodes of a syntax tree, and which of their fields lead to further nodes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ScopeNode = ast.Module | ast.ClassDef | FunctionNode
Loop = ast.For | ast.AsyncFor | ast.While
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCOPES = (ast.Module, ast.ClassDef, *FUNCTIONS)
LEAVES = (ast.Continue, ast.Break, ast.Return, ast.Raise)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

_NO_NODES = {"ctx", "op", "ops", "type_comment", "lineno", "type_ignores", "level", "conversion", "kind", "simple"}


class _ChildFields(dict[type, tuple[str, ...]]):
    """The fields of each class of node that may hold nodes worth a visit, found at first use."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        names: tuple[str, ...] = getattr(kind, "_fields", ())
        if kind in (ast.Name, ast.Constant, ast.alias, ast.Global, ast.Nonlocal):
            names = ()
        found = tuple(name for name in names if name not in _NO_NODES)
        self[kind] = found
        return found


CHILD_FIELDS = _ChildFields()
_GOES_THROUGH = ("list", "tuple", "sorted", "enumerate")
_WRITE_NO_VALUES = frozenset(
    "requires_grad_ share_memory_ detach_ rename_ squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_".split()
)


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below `node`, in the order of the source."""
    below: list[ast.AST] = []
    for field in CHILD_FIELDS[type(node)]:
        value = getattr(node, field, None)
        if type(value) is list:
            below += [each for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST):
            below.append(value)
    return below


def walk(node: ast.AST, *, into_functions: bool = False) -> Iterator[ast.AST]:
    """`node` and all below it in the order of the source; functions and classes inside are given, not entered."""
    waiting = [node]
    while waiting:
        at = waiting.pop()
        yield at
        if into_functions or at is node or not isinstance(at, SCOPES):
            waiting += reversed(children(at))


def path_of(node: ast.AST | None) -> str | None:
    """How a place is written: `best`, `self.model`, `ckpt['model']`; nothing for what is not a fixed place."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Name):
            return node.id + "".join(reversed(parts))
        if isinstance(node, ast.Attribute):
            parts.append(f".{node.attr}")
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            parts.append(f"[{node.slice.value!r}]")
        else:
            return None
        node = node.value


def root_of(node: ast.expr) -> ast.expr:
    """What a place begins with: `ckpt` of `ckpt['model'].weight`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def root_name(place: str) -> str:
    """What a written place begins with: `ckpt` of `ckpt['model'].weight`."""
    return re.split(r"[.\[]", place, maxsplit=1)[0]


def names_in(node: ast.AST) -> list[ast.Name]:
    """All names below a node."""
    return [each for each in ast.walk(node) if isinstance(each, ast.Name)]


def gone_through(iterable: ast.expr) -> ast.expr:
    """The dict or list that a loop goes through: `logs` of `logs.items()`, `list(logs)`, `enumerate(logs)`."""
    while isinstance(iterable, ast.Call):
        of = method_call(iterable, "items", "keys", "copy")
        if of is None and not (called_name(iterable) in _GOES_THROUGH and iterable.args):
            break
        iterable = of if of is not None else iterable.args[0]
    return iterable


def method_call(node: ast.AST | None, *names: str) -> ast.expr | None:
    """What a method with one of these names is called on: `x` of `x.name(…)`; nothing for other nodes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
        return node.func.value
    return None


def called_name(call: ast.Call) -> str:
    """The last name of what is called: `step` of `self.optimizer.step()`."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def is_in_place(method: str) -> bool:
    """Whether a method of this name writes into its tensor: `add_`, not `__add__` or `requires_grad_`."""
    return method.endswith("_") and not method.endswith("__") and method not in _WRITE_NO_VALUES


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """What a call gives for a keyword."""
    return next((each.value for each in call.keywords if each.arg == name), None)


def arguments(call: ast.Call) -> list[ast.expr]:
    """All that is given to a call, `*` and `**` without their stars."""
    given = [each.value if isinstance(each, ast.Starred) else each for each in call.args]
    return given + [each.value for each in call.keywords]


def is_true(node: ast.expr | None) -> bool:
    """Whether an expression is the constant `True`."""
    return isinstance(node, ast.Constant) and node.value is True


def strip_calls(node: ast.expr, *names: str) -> tuple[ast.expr, list[str]]:
    """`v` and `["detach", "cpu"]` of `v.detach().cpu()`, for methods of these names only."""
    seen: list[str] = []
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
            seen.append(node.func.attr)
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr in names:
            seen.append(node.attr)
            node = node.value
        else:
            return node, seen[::-1]


def assigned(at: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target of an assignment with its value; those of `a, b = x, y` one by one."""
    for target in at.targets:
        if isinstance(target, ast.Tuple | ast.List) and isinstance(at.value, ast.Tuple | ast.List):
            yield from zip(target.elts, at.value.elts, strict=False)
        else:
            yield target, at.value
