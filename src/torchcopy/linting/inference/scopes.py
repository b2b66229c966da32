"""Scopes: a module, a class, a function, each with its own nodes and what its names are bound to."""

from __future__ import annotations

import ast
import dataclasses
import functools
from typing import TypeVar

from .nodes import CHILD_FIELDS, FUNCTIONS, SCOPES, ScopeNode

N = TypeVar("N", bound=ast.AST)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """One place where a name, or an attribute of `self`, gets its value.

    Attributes:
        node: the name, attribute, parameter, import or definition that is bound.
        how: `value` (`value` is what is bound), `element` (bound to an element of `value`: a loop), `entered`
            (by a `with`), `part` (the `index`-th part of `value`), `parameter`, `import`, `definition`, `other`.
        value: the expression it comes from.
        index: which part of it; with `element`, the part of the element, or -1 for the whole.
        annotation: what the source says of it.
    """

    node: ast.AST
    how: str
    value: ast.expr | None = None
    index: int = -1
    annotation: ast.expr | None = None


class Scope:
    """A module, class or function. Its nodes are walked once, when first asked for; inner scopes on their own.

    Attributes:
        node: of the tree.
        parent: the scope around it.
        parents: the node above each node, shared by all scopes of a file, filled as scopes are walked.
    """

    def __init__(self, node: ScopeNode, parent: Scope | None, parents: dict[ast.AST, ast.AST]) -> None:
        self.node = node
        self.parent = parent
        self.parents = parents

    def release(self) -> None:
        """Lets go of the scopes around and inside, which hold each other."""
        for each in vars(self)["_walked"][1] if "_walked" in vars(self) else ():
            each.release()
        vars(self).clear()

    @functools.cached_property
    def _walked(self) -> tuple[dict[type, list[ast.AST]], list[Scope]]:
        nodes: dict[type, list[ast.AST]] = {}
        inner: list[Scope] = []
        parents = self.parents
        waiting: list[ast.AST] = [self.node]
        while waiting:
            at = waiting.pop()
            kind = type(at)
            if kind in nodes:
                nodes[kind].append(at)
            else:
                nodes[kind] = [at]
            if kind in SCOPES and at is not self.node:
                inner.append(Scope(at, self, parents))  # type: ignore[arg-type]
                continue
            below: list[ast.AST] = []
            for field in CHILD_FIELDS[kind]:
                value = getattr(at, field, None)
                if value is None:
                    continue
                if type(value) is list:
                    for each in value:
                        if isinstance(each, ast.AST):
                            parents[each] = at
                            below.append(each)
                elif isinstance(value, ast.AST):
                    parents[value] = at
                    below.append(value)
            if below:
                below.reverse()
                waiting += below
        return nodes, inner

    def nodes(self, kind: type[N]) -> list[N]:
        """The nodes of a class in this scope, in the order of the source; of inner scopes only their own node."""
        return self._walked[0].get(kind, [])  # type: ignore[return-value]

    def has(self, *kinds: type[ast.AST]) -> bool:
        """Whether there is a node of one of these classes."""
        return any(kind in self._walked[0] for kind in kinds)

    @property
    def inner(self) -> list[Scope]:
        """The scopes right inside of this one."""
        return self._walked[1]

    @property
    def is_function(self) -> bool:
        """Whether this is a function or lambda."""
        return isinstance(self.node, FUNCTIONS)

    @property
    def name(self) -> str:
        """Of the function or class; empty for others."""
        return getattr(self.node, "name", "")

    @property
    def body(self) -> list[ast.stmt]:
        """The statements."""
        return [] if isinstance(self.node, ast.Lambda) else self.node.body

    @functools.cached_property
    def owner(self) -> Scope | None:
        """The class whose method this is, or in whose method this function is."""
        scope = self.parent
        while scope is not None and not isinstance(scope.node, ast.ClassDef):
            scope = scope.parent
        return scope

    @functools.cached_property
    def self_name(self) -> str:
        """How a method calls its object; also inside of functions in a method."""
        if not isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef) or self.parent is None:
            return self.parent.self_name if self.parent is not None and self.is_function else ""
        if isinstance(self.parent.node, ast.ClassDef):
            static = any(getattr(each, "id", "") == "staticmethod" for each in self.node.decorator_list)
            first = [*self.node.args.posonlyargs, *self.node.args.args][:1]
            return first[0].arg if first and not static else ""
        return self.parent.self_name

    def owns(self, place: str) -> bool:
        """Whether a place is an attribute of the object whose method this is: `self.best`."""
        return bool(self.self_name) and place.startswith(f"{self.self_name}.")

    @functools.cached_property
    def parameters(self) -> list[ast.arg]:
        """In order, those by keyword only at the end."""
        if not isinstance(self.node, FUNCTIONS):
            return []
        given = self.node.args
        return [*given.posonlyargs, *given.args, *given.kwonlyargs]

    @property
    def by_keyword_only(self) -> int:
        """How many parameters at the end are given by keyword only."""
        return len(self.node.args.kwonlyargs) if isinstance(self.node, FUNCTIONS) else 0

    @functools.cached_property
    def bindings(self) -> dict[str, list[Binding]]:
        """Where each name of this scope is bound, in the order of the source."""
        found: dict[str, list[Binding]] = {}
        for arg in self.parameters:
            found.setdefault(arg.arg, []).append(Binding(arg, "parameter", annotation=arg.annotation))
        for node in self.nodes(ast.Name):
            if type(node.ctx) is not ast.Load and not self._is_of_comprehension(node):
                found.setdefault(node.id, []).append(self.binding(node))
        imports: list[ast.Import | ast.ImportFrom] = [*self.nodes(ast.Import), *self.nodes(ast.ImportFrom)]
        for each in imports:
            for alias in each.names:
                name = alias.asname or alias.name.partition(".")[0]
                found.setdefault(name, []).append(Binding(each, "import"))
        for scope in self.inner:
            if scope.name:
                found.setdefault(scope.name, []).append(Binding(scope.node, "definition"))
        return found

    def _is_of_comprehension(self, node: ast.AST) -> bool:
        """Whether a name is bound by a comprehension, and so known in it alone."""
        above = self.parents.get(node)
        while isinstance(above, ast.Tuple | ast.List | ast.Starred):
            above = self.parents.get(above)
        return isinstance(above, ast.comprehension)

    def binding(self, target: ast.Name | ast.Attribute | ast.Subscript) -> Binding:
        """How a name, attribute or item that is stored to gets its value."""
        above = self.parents.get(target)
        index = -1
        if isinstance(above, ast.Starred):
            return Binding(target, "other")
        place: ast.AST = target
        if isinstance(above, ast.Tuple | ast.List):
            index = above.elts.index(target)
            place, above = above, self.parents.get(above)
            if isinstance(above, ast.Tuple | ast.List):
                return Binding(target, "other")
        match above:
            case ast.Assign(value=value):
                if index < 0:
                    return Binding(target, "value", value)
                if isinstance(value, ast.Tuple | ast.List) and index < len(value.elts):
                    return Binding(target, "value", value.elts[index])
                return Binding(target, "part", value, index)
            case ast.AnnAssign(value=value, annotation=annotation):
                return Binding(target, "value" if value else "other", value, annotation=annotation)
            case ast.AugAssign(value=value):
                return Binding(target, "augmented", value)
            case ast.NamedExpr(value=value):
                return Binding(target, "value", value)
            case ast.For(iter=value) | ast.AsyncFor(iter=value) | ast.comprehension(iter=value) if (
                value is not place
            ):
                return Binding(target, "element", value, index)
            case ast.withitem(context_expr=value):
                return Binding(target, "entered", value, index)
        return Binding(target, "other")
