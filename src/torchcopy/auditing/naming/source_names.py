"""The names in the source of a program: those at the line that runs, and second names of what has one."""

from __future__ import annotations

import ast
import dataclasses
import linecache
import re
from collections.abc import Iterable, Iterator
from types import CodeType

from ..records import SourceLine
from .sites import shown_path

# Words that say: this has, or shall keep, other values than what is trained.
_SNAPSHOT = frozenset(
    "old prev previous before past initial init orig original start anchor snapshot backup saved best target"
    " teacher frozen ema average averaged avg shadow ref reference copy copied clone cloned".split()
)
_WRAPPED = frozenset("orig original start".split())  # what a module is called that somebody has wrapped
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ORDERED = (ast.Lt, ast.Gt, ast.LtE, ast.GtE)


@dataclasses.dataclass(frozen=True)
class Binding:
    """A line that binds a name which says that it has values of its own to what has another name.

    Attributes:
        path: of the file, as its code objects have it.
        scope: the qualified name of the function; `<module>` outside of any.
        name: what is bound, with its dots.
        other: the other name; empty where the tensors of a model are collected.
        line: where.
        is_view: whether it is a view of one parameter that is bound.
    """

    path: str
    scope: str
    name: str
    other: str
    line: SourceLine
    is_view: bool = False


@dataclasses.dataclass(frozen=True)
class Spoken:
    """The names that the source has where it runs.

    Attributes:
        call: of what the innermost expression calls, and of its arguments.
        inside: all in the innermost expression.
        around: those in the statement, and those that the loops around it go through.
        is_detached: whether the result of the expression is detached at once.
        is_assertion: whether the statement is an `assert`.
    """

    call: frozenset[str] = frozenset()
    inside: frozenset[str] = frozenset()
    around: frozenset[str] = frozenset()
    is_detached: bool = False
    is_assertion: bool = False


class SourceNames:
    """Reads the files of a program, each once."""

    def __init__(self) -> None:
        self._parents: dict[str, dict[ast.AST, ast.AST]] = {}
        self._at: dict[str, dict[tuple[int, int, int, int], ast.expr]] = {}
        self._spoken: dict[tuple[CodeType, int], Spoken] = {}

    def at(self, code: CodeType, instruction: int) -> Spoken:
        """The names at an instruction of a code object."""
        found = self._spoken.get((code, instruction))
        if found is None:
            found = self._spoken[code, instruction] = self._names_at(code, instruction)
        return found

    def _names_at(self, code: CodeType, instruction: int) -> Spoken:
        self._read(code.co_filename)
        position = list(code.co_positions())[instruction // 2]
        node = self._at[code.co_filename].get(position)  # type: ignore[arg-type]
        if node is None:
            return Spoken()
        parents = self._parents[code.co_filename]
        statement: ast.AST = node
        around: set[str] = set()
        for above in _above(node, parents):
            statement = above
            if isinstance(above, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
                around.update(*(_names(generator.iter) for generator in above.generators))
            if isinstance(above, ast.stmt):
                break
        around |= _names(statement) if not isinstance(statement, _COMPOUND) else _names(node)
        for above in _above(statement, parents):
            if isinstance(above, (ast.For, ast.AsyncFor)):
                around |= _names(above.iter)
            elif isinstance(above, (*_FUNCTIONS, ast.ClassDef)):
                break
        user = parents.get(node)
        return Spoken(
            call=frozenset(_spoken(node)),
            inside=frozenset(_names(node)),
            around=frozenset(around),
            is_detached=isinstance(user, ast.Attribute) and user.attr == "detach",
            is_assertion=isinstance(statement, ast.Assert),
        )

    def _read(self, path: str) -> ast.Module | None:
        if path in self._parents:
            return None
        parents = self._parents[path] = {}
        positions = self._at[path] = {}
        try:
            tree = ast.parse("".join(linecache.getlines(path)))
        except (SyntaxError, ValueError):
            return None
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                parents[child] = node
            if isinstance(node, ast.expr) and node.end_lineno is not None and node.end_col_offset is not None:
                position = (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
                positions.setdefault(position, node)
        return tree

    # --- bindings -------------------------------------------------------------------------------------------------

    def bindings(self, path: str) -> list[Binding]:
        """The bindings of a file that may be mistaken for copies. Empty when it is asked for again."""
        tree = self._read(path)
        if tree is None:
            return []
        parents = self._parents[path]
        found: list[Binding] = []
        taken: dict[str, list[ast.expr | None]] = {}
        for node in ast.walk(tree):
            for target, value in _assignments(node):
                name = _dotted(target)
                if name:
                    taken.setdefault(name, []).append(value)
                    if value is not None and _is_snapshot(name) and isinstance(node, (ast.Assign, ast.AnnAssign)):
                        found += self._binding(path, node, name, value, parents)
            filled, each = _filled(node)
            if filled and each is not None and not _is_view_of_one(each):
                taken.setdefault(filled, []).append(None)
            elif filled and _is_snapshot(filled) and _is_in_loop_over_parameters(node, parents):
                assert isinstance(node, ast.stmt)
                found.append(_binding_at(path, node, filled, "", parents))
        meant = {name for node in ast.walk(tree) if (name := _given_to_optimizer(node))}
        return [
            b
            for b in found
            if b.name not in meant
            and all(_may_stay(value) for value in taken[b.name])
            and not any(value is not None and _dotted(value) == b.name for value in taken.get(b.other, ()))
        ]

    @staticmethod
    def _binding(
        path: str, node: ast.stmt, name: str, value: ast.expr, parents: dict[ast.AST, ast.AST]
    ) -> Iterator[Binding]:
        other = "" if _without_views(value) is not value else _dotted(value)
        if other and (_is_snapshot(other) or not _is_alias_of_module(name, node, parents)):
            return
        if not other and not _collects_parameters(value):
            return
        made = _binding_at(path, node, name, other, parents)
        yield dataclasses.replace(made, is_view=_is_view_of_attribute(value))


def _binding_at(path: str, node: ast.stmt, name: str, other: str, parents: dict[ast.AST, ast.AST]) -> Binding:
    qualified, is_function = "", False
    for above in reversed([each for each in _above(node, parents) if isinstance(each, _NAMED)]):
        qualified += f"{'.<locals>.' if is_function else '.' if qualified else ''}{above.name}"
        is_function = isinstance(above, _FUNCTIONS)
    text = linecache.getline(path, node.lineno).rstrip("\n")
    end = node.end_col_offset if node.end_lineno == node.lineno else None
    line = SourceLine(
        path=shown_path(path),
        line=node.lineno,
        column=_characters(text, node.col_offset) + 1,
        end_column=None if end is None else _characters(text, end) + 1,
        text=text,
        function=qualified or "<module>",
    )
    return Binding(path, qualified or "<module>", name, other, line)


def says_snapshot(name: str) -> bool:
    """Whether a name says that what it stands for has values of its own."""
    return _is_snapshot(name)


def bound_name(path: str, line: int) -> str:
    """The name that the line binds, with its dots; empty where it binds none, or several."""
    try:
        tree = ast.parse(linecache.getline(path, line).strip())
    except (SyntaxError, ValueError):
        return ""
    statement = tree.body[0] if len(tree.body) == 1 else None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return _dotted(statement.targets[0])
    return ""


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NAMED = (*_FUNCTIONS, ast.ClassDef)
_COMPOUND = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.Match, *_NAMED)


def _above(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    above = parents.get(node)
    while above is not None:
        yield above
        above = parents.get(above)


def _dotted(node: ast.AST) -> str:
    """`a.b.c` for such a node, and nothing for any other."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join((node.id, *reversed(names)))


def _names(node: ast.AST) -> set[str]:
    return {name for each in ast.walk(node) if (name := _dotted(each))}


def _spoken(node: ast.expr) -> Iterable[str]:
    if not isinstance(node, ast.Call):
        return _names(node)
    parts = [node.func, *node.args, *(keyword.value for keyword in node.keywords)]
    return {name for part in parts for name in _with_beginnings(_dotted(part))}


def _with_beginnings(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition(".")[0]


def _is_snapshot(name: str) -> bool:
    return any(word.lower() in _SNAPSHOT for word in _WORD.findall(name.rpartition(".")[2]))


def _assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """What is assigned, and from what; None for a value that is not spelled out."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            both = (target, node.value)
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                if len(target.elts) == len(node.value.elts):
                    yield from zip(target.elts, node.value.elts, strict=True)
            elif isinstance(target, (ast.Tuple, ast.List)):
                yield from ((each, None) for each in target.elts)
            else:
                yield both
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        yield node.target, node.value
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension, ast.AugAssign)):
        yield from ((each, None) for each in ast.walk(node.target) if isinstance(each, (ast.Name, ast.Attribute)))
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, None


def _given_to_optimizer(node: ast.AST) -> str:
    """The name in `SGD(name.parameters(), …)`: what it has is trained by this name, on purpose."""
    if not (isinstance(node, ast.Call) and node.args and _dotted(node.func).rpartition(".")[2][:1].isupper()):
        return ""
    given = node.args[0]
    return (
        _dotted(given.func.value) if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) else ""
    )


def _may_stay(value: ast.expr | None) -> bool:
    """Whether what else a name is assigned leaves it the mistake that it looks like: nothing, or the same again."""
    return value is not None and bool(
        (isinstance(value, ast.Constant) and value.value is None)
        or (isinstance(value, ast.Dict) and not value.keys)
        or (isinstance(value, ast.List) and not value.elts)
        or (_dotted(value) and not _is_snapshot(_dotted(value)))
        or _collects_parameters(value)
    )


def _is_alias_of_module(name: str, node: ast.stmt, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a second name is bound in good faith: always, or because something was better than before."""
    words = {word.lower() for word in _WORD.findall(name.rpartition(".")[2])}
    if not words & (_SNAPSHOT - _WRAPPED):
        return False
    below: ast.AST = node
    for above in _above(node, parents):
        if isinstance(above, _NAMED):
            break
        if isinstance(above, ast.If) and below is not above.test:
            compared = [each for each in ast.walk(above.test) if isinstance(each, ast.Compare)]
            if not any(isinstance(op, _ORDERED) for each in compared for op in each.ops):
                return False
        below = above
    return True


def _collects_parameters(value: ast.expr) -> bool:
    """Whether an expression is a list, tuple or dict of a module's own parameters, or of views of them.

    So may be a shallow copy of one, and a view of one attribute: what they have when the program runs decides.
    """
    match value:
        case ast.Call(func=ast.Name(id="list" | "tuple" | "dict"), args=[ast.GeneratorExp() as inner]):
            return _collects_each(inner, inner.elt)
        case ast.Call(func=ast.Name(id="list" | "tuple" | "dict"), args=[inner]):
            return _is_parameters(inner) or bool(_dotted(inner))
        case ast.ListComp():
            return _collects_each(value, value.elt)
        case ast.DictComp():
            return _collects_each(value, value.value)
        case ast.List(elts=[ast.Starred(value=inner)]) | ast.Tuple(elts=[ast.Starred(value=inner)]):
            return _is_parameters(inner) or bool(_dotted(inner))
        case ast.Dict(keys=[None], values=[inner]):
            return bool(_dotted(inner))
        case ast.Subscript(value=inner, slice=ast.Slice(lower=None, upper=None, step=None)):
            return bool(_dotted(inner))
        case ast.Call(func=ast.Attribute(attr="copy", value=ast.Name(id="copy")), args=[inner]):
            return bool(_dotted(inner))
        case ast.Call(func=ast.Attribute(attr="copy", value=inner), args=[]):
            return bool(_dotted(inner))
    return _is_view_of_attribute(value)


def _is_view_of_attribute(value: ast.expr) -> bool:
    """Whether an expression is `model.weight.data`, or `.detach()` of that or of a part of it."""
    viewed = _without_views(value)
    is_view = viewed is not value
    while isinstance(viewed, ast.Subscript):
        viewed = viewed.value
    return is_view and isinstance(viewed, ast.Attribute)


def _without_views(value: ast.expr) -> ast.expr:
    """`p` of `p.data`, `p.detach()` and both."""
    while True:
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "detach":
            value = value.func.value
        elif isinstance(value, ast.Attribute) and value.attr == "data":
            value = value.value
        else:
            return value


def _collects_each(comprehension: ast.ListComp | ast.GeneratorExp | ast.DictComp, each: ast.expr) -> bool:
    return isinstance(_without_views(each), ast.Name) and _is_parameters(comprehension.generators[0].iter)


def _is_view_of_one(value: ast.expr) -> bool:
    """Whether an expression is `p.data` or `p.detach()`."""
    return isinstance(_without_views(value), ast.Name) and not isinstance(value, ast.Name)


def _filled(node: ast.AST) -> tuple[str, ast.expr | None]:
    """The name in `name[key] = value` or `name.append(value)`, and the value."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=target)], value=value):
            return _dotted(target), value
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append", value=target), args=[value])):
            return _dotted(target), value
    return "", None


def _is_in_loop_over_parameters(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    for above in _above(node, parents):
        if isinstance(above, _NAMED):
            break
        if isinstance(above, ast.For) and any(_is_parameters(each) for each in ast.walk(above.iter)):
            return True
    return False


def _is_parameters(value: ast.AST) -> bool:
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in ("parameters", "named_parameters")
    )


def _characters(text: str, byte_offset: int) -> int:
    return len(text.encode("utf-8")[:byte_offset].decode("utf-8", errors="ignore"))
