"""TC209: a loop in Python that averages or copies weights, tensor by tensor."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..findings import Finding
from ..inference.file_facts import FileFacts
from ..inference.nodes import called_name, method_call, path_of
from ..inference.scopes import Scope
from ..inference.weights.weight_updates import Deed, Places, simple_statements

CODE = "TC209"
NEEDS = ("parameters()", "state_dict()", "buffers()", "params")

_WRITES = ("copy_(", "lerp_(", "add_(", "sub_(", "mul_(", ".data", "] = ", " += ", " -= ")
_OF_MODULES = ("parameters", "named_parameters", "buffers", "named_buffers")
_WEIGHTS = re.compile(r"param|weight|buffer", re.IGNORECASE)
_STEPS = re.compile(r"grad|delta|direction|velocit|perturb|noise|^g\d?$", re.IGNORECASE)
_MOST = 8  # statements: a longer body does more than that


def check(facts: FileFacts) -> Iterator[Finding]:
    """Loops over two sets of weights at once, or over the keys of two states, that do nothing else."""
    text = facts.source.text
    if "zip(" not in text and ".items()" not in text and "state_dict" not in text and "named_" not in text:
        return
    if not any(each in text for each in _WRITES):
        return
    for scope in facts.functions:
        for loop in scope.nodes(ast.For):
            if len(loop.body) <= _MOST:
                yield from _in_loop(facts, loop, loop.target, loop.iter, loop.body)
        for comprehension in scope.nodes(ast.ListComp):
            first = comprehension.generators[0]
            is_statement = isinstance(facts.parent(comprehension), ast.Expr)
            if is_statement and len(comprehension.generators) == 1 and not first.ifs:
                body: list[ast.stmt] = [ast.Expr(value=comprehension.elt)]
                yield from _in_loop(facts, comprehension, first.target, first.iter, body)


def _in_loop(
    facts: FileFacts, node: ast.For | ast.ListComp, target: ast.expr, iterable: ast.expr, body: list[ast.stmt]
) -> Iterator[Finding]:
    loop = _Loop(facts, target, iterable)
    if loop.is_over_weights and (deed := loop.deed(body)) is not None:
        yield _finding(facts, node, loop, *deed)


class _Loop:
    """What a loop goes over."""

    def __init__(self, facts: FileFacts, target: ast.expr, iterable: ast.expr) -> None:
        self.facts = facts
        self.places = Places({})
        self.owners: dict[str, str] = {}
        self.leaves_out_buffers = False
        self.named_parameters_of = ""
        self.is_over_weights = self._read(target, iterable)

    def _read(self, target: ast.expr, iterable: ast.expr) -> bool:
        if isinstance(iterable, ast.Call) and called_name(iterable) == "enumerate" and iterable.args:
            if not (isinstance(target, ast.Tuple) and len(target.elts) == 2):
                return False
            target, iterable = target.elts[1], iterable.args[0]
        if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and iterable.func.id == "zip":
            return self._read_zip(target, iterable)
        return self._read_states(target, iterable)

    def _read_zip(self, target: ast.expr, iterable: ast.Call) -> bool:
        if not isinstance(target, ast.Tuple) or not len(target.elts) == len(iterable.args) == 2:
            return False
        of_modules = 0
        weights = 0
        for number, (variable, given) in enumerate(zip(target.elts, iterable.args, strict=True)):
            if isinstance(variable, ast.Tuple) and variable.elts:
                variable = variable.elts[-1]
            if not isinstance(variable, ast.Name):
                return False
            self.places.names[variable.id] = number
            owner, is_module = self._owner(given)
            self.owners[variable.id] = owner
            of_modules += is_module
            if not is_module and _STEPS.search(owner):
                return False  # a step along something
            weights += is_module or bool(_WEIGHTS.search(owner)) or self._holds_tensors(given)
        if of_modules == 1:  # a module goes with a list of tensors as the list of its own
            for name, given in zip(list(self.owners), iterable.args, strict=False):
                if self._lists_parameters(given):
                    self.owners[name] = f"list({self.owners[name]}.parameters())"
        self.leaves_out_buffers = of_modules == 2 and "buffers()" not in "".join(self.owners.values())
        return of_modules >= 1 and weights >= 2 and len(self.places.names) == 2

    def _lists_parameters(self, given: ast.expr) -> bool:
        """Whether an expression, or what a name stands for, is `m.parameters()` or a list of it."""
        if isinstance(given, ast.Name):
            bound = self.facts.bindings(given)[:1]
            return any(each.how == "value" and each.value and self._lists_parameters(each.value) for each in bound)
        if isinstance(given, ast.Call) and called_name(given) in ("list", "tuple", "iter") and len(given.args) == 1:
            given = given.args[0]
        return method_call(given, "parameters") is not None

    def _owner(self, given: ast.expr) -> tuple[str, bool]:
        """Whose weights are iterated, as written, and whether it is a module's for sure."""
        while (
            isinstance(given, ast.Call) and called_name(given) in ("list", "tuple", "iter") and len(given.args) == 1
        ):
            given = given.args[0]
        if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute):
            name, of = given.func.attr, given.func.value
            if "buffers" in name:
                return f"list({self.facts.source.segment(of)}.buffers())", True
            if name.endswith("parameters"):
                return self.facts.source.segment(of), True
            if name in ("values", "items"):
                owner = self._state(of)
                return (owner, True) if owner else ("", False)
            return "", False
        if isinstance(given, ast.Name):
            for bound in self.facts.bindings(given)[:1]:
                if bound.how == "value" and bound.value is not None and not isinstance(bound.value, ast.Name):
                    return self._owner(bound.value)[0] or given.id, self._owner(bound.value)[1]
        return path_of(given) or "", False

    def _state(self, of: ast.expr) -> str:
        """The module whose `state_dict()` an expression is, or a name that it has."""
        if isinstance(of, ast.Call) and called_name(of) in ("state_dict", *_OF_MODULES):
            return self.facts.source.segment(of.func.value) if isinstance(of.func, ast.Attribute) else ""
        if isinstance(of, ast.Call) and called_name(of) == "dict" and of.args:
            return self._state(of.args[0])
        kind = self.facts.kind_of(of)
        if kind.name == "state_dict":
            return kind.of or (path_of(of) or "")
        return ""

    def _holds_tensors(self, given: ast.expr) -> bool:
        element = self.facts.kind_of(given).element
        return element is not None and element.is_tensor

    def _read_states(self, target: ast.expr, iterable: ast.expr) -> bool:
        """`for k, v in model.state_dict().items()`, `for k in state`: the other is `other[k]` in the body."""
        if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Attribute):
            name, of = iterable.func.attr, iterable.func.value
            if name in ("named_parameters", "named_buffers"):
                owner = self.facts.source.segment(of)
            elif name in ("items", "keys"):
                owner = self._state(of)
            else:
                return False
            if not owner:
                return False
            if name == "keys" and isinstance(target, ast.Name):
                self.places.key = target.id
                return True
            if not (isinstance(target, ast.Tuple) and len(target.elts) == 2):
                return False
            key, value = target.elts
            if not isinstance(key, ast.Name) or not isinstance(value, ast.Name):
                return False
            self.places.key = key.id
            self.places.names[value.id] = 0
            self.owners[value.id] = owner
            if name == "named_parameters":
                self.leaves_out_buffers = True
                self.named_parameters_of = owner
            return True
        owner = self._state(iterable)
        if owner and isinstance(target, ast.Name):
            self.places.key = target.id
            return True
        return False

    def deed(self, body: list[ast.stmt]) -> tuple[Deed, str, str] | None:
        """What the body does to one set of weights: `copy` or `average`, into which, from which."""
        deeds: list[tuple[str, Deed, str]] = []
        for statement in simple_statements(body):
            if statement is None:
                return None
            if self._is_noted(statement):
                continue
            name, deed, other = self.places.deed(statement)
            if not deed:
                return None
            deeds.append((name, deed, other))
        names = {each[0] for each in deeds}
        others = {each[2] for each in deeds if each[2]}
        if len(names) != 1 or len(others) != 1 or names & others:
            return None
        kinds = {each[1] for each in deeds}
        target, source = names.pop(), others.pop()
        if "average" in kinds or {"scale", "add"} <= kinds:
            return "average", target, source
        return ("copy", target, source) if kinds == {"copy"} and self._is_whole(target, source) else None

    def _is_whole(self, target: str, source: str) -> bool:
        """Whether a copy is one of two like structures: by key, it is a load of a state that may have more."""
        return not self.places.key or (target not in self.places.names and source not in self.places.names)

    def _is_noted(self, statement: ast.stmt) -> bool:
        """Whether a statement gives a local name to an expression."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if name in self.places.names:
                    return self.places.of(value) == name
                self.places.named[name] = value
                return True
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(
                values
            ):
                for each, value in zip(names, values, strict=True):
                    if not isinstance(each, ast.Name) or each.id in self.places.names:
                        return False
                    self.places.named[each.id] = value
                return True
        return False

    def match_keys(self, place: str, scope: Scope) -> None:
        """Names the parameters alone where the other side is a dict of these: a module has buffers besides."""
        if not self.named_parameters_of or place in self.places.names:
            return
        bound = self.facts.bindings_of_path(scope, place)
        if any(each.value is not None and "state_dict" in self.facts.source.segment(each.value) for each in bound):
            return
        self.owners = {
            name: f"dict({owner}.named_parameters())" if owner == self.named_parameters_of else owner
            for name, owner in self.owners.items()
        }
        self.leaves_out_buffers = False

    def written(self, name: str) -> str:
        """How to name a set of weights in a message."""
        owner = self.owners.get(name, "" if name in self.places.names else name)
        return owner if owner and len(owner) < 40 and "\n" not in owner else ""


def _finding(
    facts: FileFacts, node: ast.For | ast.ListComp, loop: _Loop, deed: Deed, target: str, source: str
) -> Finding:
    for place in (target, source):
        loop.match_keys(place, facts.scope_of(node))
    into, of = loop.written(target) or "target", loop.written(source) or "source"
    if deed == "average":
        message = f"a loop averages weights tensor by tensor: `tc.lerp_({into}, {of}, weight)` does it in one call"
    else:
        message = f"a loop copies weights tensor by tensor: `tc.copy_({into}, {of})` does it in one call"
    if loop.leaves_out_buffers:
        message += ", and the buffers too"
    head = node.iter if isinstance(node, ast.For) else node
    return facts.source.finding(CODE, message, node, end=head)
