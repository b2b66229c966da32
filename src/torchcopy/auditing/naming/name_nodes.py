"""What the source of a program does with a name at a place: reads it, writes to it, hands it on."""

from __future__ import annotations

import ast
import dataclasses
from types import FrameType
from typing import Any, Literal

Kind = Literal["", "read", "passed", "returned", "written"]
_METADATA = frozenset("shape dtype ndim size nbytes itemsize strides flags ctypes __len__ base".split())
_GROWS = frozenset("append appendleft extend insert add update setdefault clear remove discard keys pop".split())
_WRITES = frozenset("fill sort put partition resize setfield byteswap".split())
_WRITES_FIRST = frozenset("copyto shuffle readinto readinto1 recv_into put place putmask fill_diagonal".split())
_ASKS = frozenset("len id type isinstance hasattr callable getrefcount".split())
_SHARES = frozenset("from_numpy as_tensor asarray frombuffer from_dlpack shares_memory may_share_memory".split())


@dataclasses.dataclass(frozen=True)
class Held:
    """A name of a running function that has what was looked for.

    Attributes:
        frame: of the function.
        name: of the variable.
        attribute: of the variable's value that has it; empty where that has it itself.
        key: in the list or dict that has it among others, if that is a number or a string.
        in_container: whether there is such a list or dict between.
    """

    frame: FrameType
    name: str
    attribute: str = ""
    key: Any = None
    in_container: bool = False


class Source:
    """The syntax tree of a file: what is done with a name at a place."""

    def __init__(self, text: str) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self._names: dict[tuple[int, int, str], ast.Name] = {}
        self._calls: dict[tuple[int, int], list[ast.Call]] = {}
        for node in ast.walk(ast.parse(text)):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            if isinstance(node, ast.Name):
                self._names[node.lineno, node.col_offset, node.id] = node
            elif isinstance(node, ast.Call):
                self._calls.setdefault((node.lineno, node.col_offset), []).append(node)

    def name_at(self, line: int | None, column: int | None, name: str) -> ast.Name | None:
        """The name that an instruction loads."""
        return self._names.get((line or 0, column or 0, name))

    def call_is_written(self, line: int, column: int | None) -> bool:
        """Whether what a call at a place returns is written by the same statement."""
        for call in self._calls.get((line, (column or 1) - 1), ()):
            if isinstance(call.func, ast.Attribute) and call.func.attr in ("numpy", "__array__"):
                parent = self.parents.get(call)
                if isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
                    return True
                if isinstance(parent, ast.Attribute) and parent.attr in _WRITES:
                    return True
        return False

    def call_is_shown(self, line: int, column: int | None) -> bool:
        """Whether what a call at a place returns is compared or printed."""
        for call in self._calls.get((line, (column or 1) - 1), ()):
            parent = self.parents.get(call)
            if isinstance(parent, (ast.Compare, ast.FormattedValue, ast.Expr)):
                return True
            if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name):
                return parent.func.id in ("print", "hex", "str", "repr")
        return False

    def kind(self, name: ast.expr, held: Held) -> Kind:
        """What a place in the source does with what the name has."""
        node, parent = name, self.parents.get(name)
        if held.attribute:
            if not (isinstance(parent, ast.Attribute) and parent.attr == held.attribute):
                return ""
            node, parent = parent, self.parents.get(parent)
        if held.in_container and isinstance(parent, ast.Subscript) and parent.value is node:
            if not isinstance(parent.ctx, ast.Load) or not _may_be(parent.slice, held.key):
                return ""
            if not isinstance(parent.slice, ast.Slice):
                node, parent, held = parent, self.parents.get(parent), dataclasses.replace(held, in_container=False)
        return _kind(node, parent, self.parents, held.in_container)


def _kind(node: ast.AST, parent: ast.AST | None, parents: dict[ast.AST, ast.AST], in_container: bool) -> Kind:
    match parent:
        case ast.Attribute(attr=attr):
            if attr in _METADATA or (in_container and attr in _GROWS):
                return ""
            return "written" if not in_container and attr in _WRITES else "read"
        case ast.Subscript(value=value, ctx=ctx) if value is node:
            return "read" if isinstance(ctx, ast.Load) else "" if in_container else "written"
        case ast.AugAssign(target=target) if target is node:
            return "" if in_container else "written"
        case ast.Call(func=func, args=args):
            called = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            if called in _ASKS or called in _SHARES or node is func:
                return ""
            return "written" if called in _WRITES_FIRST and args[:1] == [node] else "passed"
        case ast.keyword(arg=arg):
            return "written" if arg == "out" else "passed"
        case ast.Compare(ops=ops):
            asks = any(isinstance(op, (ast.Is, ast.IsNot)) for op in ops)
            return "" if asks or in_container else "read"
        case ast.Return():
            return "returned"
        case ast.BinOp() | ast.FormattedValue() | ast.AugAssign() | ast.Subscript():
            return "read"
        case ast.UnaryOp(op=op):
            return "" if isinstance(op, ast.Not) else "read"
        case ast.For(iter=each) | ast.comprehension(iter=each) if each is node:
            return "read"
        case ast.Starred():
            return "passed"
        case ast.List() | ast.Tuple() if isinstance(parents.get(parent), ast.Call):  # np.stack([before, after])
            return "passed"
    return ""


def _may_be(index: ast.expr, key: Any) -> bool:
    try:
        asked = ast.literal_eval(index)
    except (ValueError, TypeError, SyntaxError):
        return True
    return bool(type(asked) is not type(key) or asked == key)
