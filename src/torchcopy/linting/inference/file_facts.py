"""Everything a rule may ask about one file; each answer is worked out when it is first asked for.

How a rule is written: a file in `rules/`, named after its code, with

- `CODE`, and `NEEDS`: words one of which has to be in the text, or the rule is not run on the file;
- `check(facts)`, which goes through `facts.functions` (the module's own scope is `facts.module`), picks nodes of
  a class with `scope.nodes(ast.Call)`, and asks `facts.kind_of(expr)`, `facts.resolve(expr)`, `facts.loops(node)`,
  `facts.parent(node)`; where the order of execution matters it runs a `Flow`;
- findings from `facts.source.finding(CODE, message, node)`.

What is not known is `UNKNOWN`: a hazard rule is silent then.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..project import Project
from ..source import Source
from . import gradients
from .frameworks import is_of_another_framework, is_of_torch
from .losses.loss_flow import Losses
from .nodes import COMPREHENSIONS, LOOPS, SCOPES, Loop, called_name, path_of
from .scopes import Binding, Scope
from .summaries import Definition, Doings, Returned, done_by, find_definition, returned_by
from .values import expressions
from .values.kinds import Kind
from .weights.kept import Kept

if TYPE_CHECKING:
    from .losses.shown_tensors import Asked
    from .weights.keepers import KeptParameter
    from .weights.loads import Load
    from .weights.state_flow import KeptStates

_OPTIMIZERS = re.compile(r"optim|adam|sgd|rmsprop|lamb|lion|lbfgs|adagrad|adadelta|adafactor")
_MOST_BINDINGS = 50  # of a name whose last one is wanted


class FileFacts:
    """What is known of one source.

    Attributes:
        source: the source.
        project: the files around it.
        module: the scope of the file itself.
        parents: the node above each node.
    """

    def __init__(self, source: Source, project: Project | None = None) -> None:
        self.source = source
        self.project = project or Project()
        self.parents: dict[ast.AST, ast.AST] = {}
        self.module = Scope(source.tree, None, self.parents)
        self.depth: list[ast.AST] = []
        self.forget()

    def forget(self) -> None:
        """Begins anew with all that is worked out, which may lead to other files; the tree and the scopes stay."""
        self._attributes: dict[Scope, dict[str, list[Binding]]] = {}
        self._kinds: dict[ast.AST, Kind] = {}
        self.losses: dict[Scope, Losses] = {}
        self.differentiated: dict[Scope, frozenset[str]] = {}
        self.returned: dict[ast.AST, Returned] = {}
        self.asked_parts: Asked | None = None
        self.done_here: dict[ast.AST, tuple[Doings, tuple[Definition, ...]]] = {}
        self.done: dict[tuple[ast.AST, int], Doings] = {}
        self.classes_of_parameters: dict[tuple[ast.arg, int], Definition | None] = {}
        self.classes_of_entries: dict[tuple[ast.arg, int], Definition | None] = {}
        self.called_objects: dict[ast.AST, Definition | None] = {}
        self.kept_states: dict[Scope, KeptStates] = {}
        self.flows_without_calls: dict[Scope, KeptStates] = {}
        self.saver_classes: dict[Scope, bool] = {}
        self.has_nothing_to_train: dict[tuple[Scope, int], bool] = {}
        self.bases: dict[Scope, list[tuple[FileFacts, Scope]]] = {}
        self.has_tensors: dict[tuple[ast.AST, int], bool] = {}
        self.may_differentiate: dict[Scope, bool] = {}
        self.takes_steps: dict[ast.AST, bool] = {}
        self.given_other_tensors: dict[ast.AST, frozenset[str]] = {}
        self.last_waits: dict[Scope, int] = {}
        self.kept_parameters: dict[Scope, list[KeptParameter]] = {}
        self.loads: dict[Scope, list[Load]] = {}
        self.replaced: dict[Scope, list[str]] = {}
        self.read_as_numbers: dict[tuple[Scope, str, int], bool] = {}
        self.written_parameters: dict[Scope, frozenset[str]] = {}
        self.returned_states: dict[tuple[Scope, int], list[Kept]] = {}
        self.states_of_values: dict[tuple[object, ...], list[Kept]] = {}

    def release(self) -> None:
        """Lets go of all that is known, so that it is freed at once, without the garbage collector. Ask no more."""
        self.module.release()
        vars(self).clear()

    @functools.cached_property
    def scopes(self) -> list[Scope]:
        """All scopes, the module first, in the order of the source."""
        found, waiting = [], [self.module]
        while waiting:
            scope = waiting.pop()
            found.append(scope)
            waiting += reversed(scope.inner)
        return found

    @functools.cached_property
    def functions(self) -> list[Scope]:
        """The scopes that run: the module and all functions and lambdas."""
        return [each for each in self.scopes if each.is_function or each is self.module]

    @functools.cached_property
    def calls_by_name(self) -> dict[str, list[ast.Call]]:
        """The calls of the file, by the last name of what they call."""
        found: dict[str, list[ast.Call]] = {}
        for scope in self.scopes:
            for call in scope.nodes(ast.Call):
                found.setdefault(called_name(call), []).append(call)
        return found

    @functools.cached_property
    def optimized(self) -> frozenset[str]:
        """The places whose parameters the file gives to an optimizer: `net` of `SGD(net.parameters())`."""
        return frozenset(
            path
            for call in self.calls_by_name.get("parameters", ())
            if isinstance(call.func, ast.Attribute) and (path := path_of(call.func.value)) is not None
            if any(
                isinstance(at, ast.Call) and _OPTIMIZERS.search(called_name(at).lower()) for at in self.above(call)
            )
        )

    @functools.cached_property
    def methods_by_name(self) -> dict[str, list[Scope]]:
        """The methods of the classes of the file, by their names."""
        found: dict[str, list[Scope]] = {}
        for scope in self.functions:
            if scope.parent is not None and isinstance(scope.parent.node, ast.ClassDef):
                found.setdefault(scope.name, []).append(scope)
        return found

    @functools.cached_property
    def subclasses(self) -> dict[str, list[Scope]]:
        """The classes of the file by the names of those that they derive from."""
        found: dict[str, list[Scope]] = {}
        for scope in self.scopes:
            for base in getattr(scope.node, "bases", ()):
                if isinstance(base, ast.Name):
                    found.setdefault(base.id, []).append(scope)
        return found

    @functools.cached_property
    def _scope_by_node(self) -> dict[ast.AST, Scope]:
        return {each.node: each for each in self.scopes}

    def scope_of(self, node: ast.AST) -> Scope:
        """The scope a node is in; for a function's or class's own node the one it makes."""
        scopes = self._scope_by_node
        while node not in scopes:
            node = self.parents[node]
        return scopes[node]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node right above."""
        return self.parents.get(node)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes above, innermost first, up to and without the function, class or module they are in."""
        at = self.parents.get(node)
        while at is not None and not isinstance(at, SCOPES):
            yield at
            at = self.parents.get(at)

    def statement_of(self, node: ast.AST) -> ast.stmt | None:
        """The statement a node is part of."""
        at: ast.AST | None = node
        while at is not None and not isinstance(at, ast.stmt):
            at = self.parents.get(at)
        return at

    def above_statements(self, node: ast.AST) -> list[ast.stmt]:
        """The compound statements around a node in its function."""
        return [each for each in self.above(node) if isinstance(each, ast.stmt)]

    def loops(self, node: ast.AST) -> list[Loop]:
        """The loops around a node in its function, innermost first; not one whose iterable or test it is in."""
        found: list[Loop] = []
        below = node
        for at in self.above(node):
            if isinstance(at, LOOPS):
                head = at.test if isinstance(at, ast.While) else at.iter
                if below is not head:
                    found.append(at)
            below = at
        return found

    def is_without_graph(self, node: ast.AST) -> bool:
        """Whether a node runs under `no_grad` or `inference_mode`: by a `with`, or its function's decorator."""
        return gradients.is_without_graph(self, node)

    def is_surely_with_graph(self, node: ast.AST) -> bool:
        """Whether gradients are on where a node runs, but for what a caller switches off."""
        return gradients.is_surely_with_graph(self, node)

    @functools.cached_property
    def imports(self) -> dict[str, str]:
        """Each imported name of the file, in whatever scope, and what it stands for: `F`, `torch.nn.functional`."""
        found: dict[str, str] = {}
        for scope in self.scopes:
            for plain in scope.nodes(ast.Import):
                for alias in plain.names:
                    top = alias.name.partition(".")[0]
                    found[alias.asname or top] = alias.name if alias.asname else top
            for each in scope.nodes(ast.ImportFrom):
                stem = "." * each.level + (each.module or "")
                for alias in each.names:
                    dot = "" if stem.endswith(".") else "."
                    found[alias.asname or alias.name] = f"{stem}{dot}{alias.name}"
        return found

    @functools.cached_property
    def is_of_another_framework(self) -> bool:
        """Whether what looks like tensors and modules in the file is that of another framework."""
        return is_of_another_framework(self)

    @functools.cached_property
    def is_of_torch(self) -> bool:
        """Whether a file imports PyTorch, or a library that trains with it."""
        return is_of_torch(self)

    @functools.cached_property
    def star_imports(self) -> list[str]:
        """What stands before a name of each module all of whose names the file imports: `torch.nn.`, `.`."""
        return [
            "." * each.level + (f"{each.module}." if each.module else "")
            for scope in self.scopes
            for each in scope.nodes(ast.ImportFrom)
            if any(alias.name == "*" for alias in each.names)
        ]

    def resolve(self, node: ast.AST | None) -> str:
        """What a dotted name stands for by the imports: `torch.nn.functional.relu` for `F.relu`; or nothing."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imports:
            return ""
        return ".".join([self.imports[node.id], *reversed(parts)])

    def bindings(self, node: ast.Name) -> list[Binding]:
        """Where the name that is read at `node` may have been bound: in a comprehension around, or a scope."""
        below: ast.AST = node
        at = self.parents.get(node)
        while at is not None and not isinstance(at, SCOPES):
            if isinstance(at, COMPREHENSIONS):
                for each in at.generators:
                    for target in ast.walk(each.target):
                        if isinstance(target, ast.Name) and target.id == node.id and below is not each.iter:
                            return [self.scope_of(node).binding(target)]
            below, at = at, self.parents.get(at)
        scope: Scope | None = self.scope_of(node)
        first = scope
        while scope is not None:
            if (scope is first or not isinstance(scope.node, ast.ClassDef)) and node.id in scope.bindings:
                return scope.bindings[node.id]
            scope = scope.parent
        return []

    def last_value(self, node: ast.Name) -> ast.expr | None:
        """What the name that is read at `node` was bound to right before, in a statement that always runs there."""
        bound = self.bindings(node)
        if len(bound) > _MOST_BINDINGS:
            return None
        binds = {self.statement_of(each.node): each for each in bound}
        around = {at for each in bound for at in self.above_statements(each.node)}
        below: ast.AST = node
        for at in (*self.above(node), self.scope_of(node).node):
            for field in ("body", "orelse", "handlers", "finalbody"):
                block = getattr(at, field, None)
                if not isinstance(block, list) or below not in block:
                    continue
                for each in reversed(block[: block.index(below)]):
                    if each in binds:
                        found = binds[each]
                        return found.value if found.how == "value" and isinstance(each, ast.Assign) else None
                    if each in around:
                        return None
            if isinstance(at, LOOPS):
                return None  # it may be of the round before
            below = at
        return None

    def attribute_bindings(self, node: ast.Attribute) -> list[Binding]:
        """Where `self.x`, read at `node`, is bound in its class."""
        scope = self.scope_of(node)
        if scope.owner is None or not isinstance(node.value, ast.Name) or node.value.id != scope.self_name:
            return []
        return self.class_attributes(scope.owner).get(node.attr, [])

    def class_attributes(self, owner: Scope) -> dict[str, list[Binding]]:
        """What each attribute of the objects of a class is bound to, in its methods and its body."""
        known = self._attributes
        if owner not in known:
            found: dict[str, list[Binding]] = {}
            known[owner] = found
            for name, bound in owner.bindings.items():
                found[name] = list(bound)
            waiting = list(owner.inner)
            while waiting:
                scope = waiting.pop(0)
                if not scope.is_function:
                    continue
                waiting += scope.inner
                for node in scope.nodes(ast.Attribute):
                    stored = type(node.ctx) is not ast.Load and isinstance(node.value, ast.Name)
                    if stored and node.value.id == scope.self_name:  # type: ignore[attr-defined]
                        found.setdefault(node.attr, []).append(scope.binding(node))
        return known[owner]

    def bindings_of_path(self, scope: Scope, path: str) -> list[Binding]:
        """Where `name` or `self.name`, as written in a scope, is bound; nothing for longer paths."""
        first, _, rest = path.partition(".")
        if rest:
            if scope.owner is None or first != scope.self_name:
                return []
            return self.class_attributes(scope.owner).get(rest, [])
        at: Scope | None = scope
        while at is not None:
            if path in at.bindings and (at is scope or not isinstance(at.node, ast.ClassDef)):
                return at.bindings[path]
            at = at.parent
        return []

    def kind_of(self, node: ast.AST | None) -> Kind:
        """What kind of value an expression has."""
        return expressions.kind_of(self, node, self._kinds)

    def definition(self, node: ast.AST) -> Definition | None:
        """The function or class of the project that a name, `self.name` or `module.name` stands for."""
        return find_definition(self, node)

    def returned_by(self, definition: Definition) -> Returned:
        """What a function of the project gives back."""
        return returned_by(definition)

    def done_by(self, definition: Definition) -> Doings:
        """Whether a function of the project takes an optimizer's step or waits for a device."""
        return done_by(definition)

    def is_module_class(self, node: ast.AST | None) -> bool:
        """Whether an expression is a class that derives from `torch.nn.Module`, in this or another file."""
        return expressions.is_module_class(self, node)
