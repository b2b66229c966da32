"""What a function of the project does, told once: what it returns, whether it trains or waits for a device."""

from __future__ import annotations

import ast
import dataclasses
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .nodes import called_name, is_in_place, root_of, strip_calls
from .scopes import Scope
from .values.elements import container_of
from .values.kinds import UNKNOWN, Kind, joined

if TYPE_CHECKING:
    from .file_facts import FileFacts

_LEFT_OUT = (("init", False), ("kw_only", True))  # `field(init=False)` is no argument of a constructor
_DEEPEST = 4  # calls of calls
GIVES_ITSELF = ("to", "cuda", "cpu", "float", "half", "double", "eval", "train", "requires_grad_")  # a module does
_ON_THE_CLASS = ("staticmethod", "classmethod")
_CALLED = "__call__"
_MADE_BY = "__init__"
_BACKWARDS = ("backward", "manual_backward")  # which tell nothing of steps and waits
_WAITS = ("synchronize", "item", "wait", "barrier")


@dataclasses.dataclass(frozen=True, slots=True)
class Definition:
    """A function or class, in this file or another of the project."""

    facts: FileFacts
    scope: Scope


@dataclasses.dataclass(frozen=True, slots=True)
class Returned:
    """What a function gives back: the kind of its result, and those of the parts where it is a tuple."""

    kind: Kind = UNKNOWN
    parts: tuple[Kind, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Doings:
    """What a function does.

    Attributes:
        steps: it lets an optimizer take a step.
        synchronises: it waits for a device.
    """

    steps: bool = False
    synchronises: bool = False


def find_definition(facts: FileFacts, node: ast.AST) -> Definition | None:
    """What a name, `self.method` or `module.name` stands for, in this file or one it imports from.

    For an object of a class of the project that is called, its `__call__`.
    """
    return find_named(facts, node) or _of_called_object(facts, node)


def find_named(facts: FileFacts, node: ast.AST) -> Definition | None:
    """As `find_definition`, for what has that name itself."""
    if isinstance(node, ast.Name):
        bound = facts.bindings(node)
        made = [
            each for each in bound if not isinstance(each.value, ast.Constant)
        ]  # `undo = None` before it is made
        if len(made) == 1 and made[0].how == "definition":
            return Definition(facts, facts.scope_of(made[0].node))
        if len(made) == 1 and isinstance(made[0].value, ast.Lambda):
            return Definition(facts, facts.scope_of(made[0].value))
        if not bound:
            found = (_imported(facts, f"{each}{node.id}") for each in facts.star_imports)
            return next((each for each in found if each is not None), None)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        scope = facts.scope_of(node)
        if scope.owner is not None and node.value.id == scope.self_name:
            method = find_method(facts, scope.owner, node.attr)
            if method is not None and not is_abstract(method.scope):
                return method
            return _of_the_only_subclass(facts, scope.owner, node.attr) or method
    name = facts.resolve(node)
    if name:
        return _imported(facts, name) or _of_class(facts, node)
    if not isinstance(node, ast.Attribute):
        return None
    return _of_class(facts, node) or _of_object(facts, node)


def _of_class(facts: FileFacts, node: ast.AST) -> Definition | None:
    """A method that is called on a class itself: a static one, or one that is given the class."""
    found = find_named(facts, node.value) if isinstance(node, ast.Attribute) else None
    if found is None or not isinstance(found.scope.node, ast.ClassDef) or not isinstance(node, ast.Attribute):
        return None
    method = find_method(found.facts, found.scope, node.attr)
    made_by = getattr(method.scope.node, "decorator_list", ()) if method is not None else ()
    return method if any(getattr(each, "id", "") in _ON_THE_CLASS for each in made_by) else None


def _of_object(facts: FileFacts, node: ast.Attribute) -> Definition | None:
    """A method of an object of one class of the project."""
    from .objects import class_of  # which itself asks for definitions

    is_object = isinstance(node.value, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    found = class_of(facts, node.value) if is_object else None
    return None if found is None else find_method(found.facts, found.scope, node.attr)


def _of_called_object(facts: FileFacts, node: ast.AST) -> Definition | None:
    """The `__call__` of an object of one class of the project, where `node` is what is called: `stopper(loss)`."""
    from .objects import class_of  # which itself asks for definitions

    call = facts.parent(node)
    if not isinstance(call, ast.Call) or call.func is not node or not isinstance(node, ast.Name | ast.Attribute):
        return None
    known = facts.called_objects
    if node not in known:
        known[node] = None  # what is made by calling itself is not followed again
        found = class_of(facts, node)
        known[node] = None if found is None else find_method(found.facts, found.scope, _CALLED)
    return known[node]


def object_of(call: ast.Call, function: Scope) -> ast.expr | None:
    """The object whose method is called: `stopper` of `stopper.update(loss)`, and of `stopper(loss)`."""
    if function.name == _CALLED and called_name(call) != _CALLED:
        return call.func
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def bases_of(facts: FileFacts, owner: Scope) -> list[tuple[FileFacts, Scope]]:
    """The classes of the project that a class derives from, with the facts of their files; worked out once."""
    known = facts.bases
    if owner not in known:
        known[owner] = [*_bases_of(facts, owner)]
    return known[owner]


def _bases_of(facts: FileFacts, owner: Scope, depth: int = 0) -> Iterator[tuple[FileFacts, Scope]]:
    if depth >= _DEEPEST or not isinstance(owner.node, ast.ClassDef):
        return
    for base in owner.node.bases:  # by their names: objects are told by their classes, and these by their bases
        name = facts.resolve(base)
        found = find_named(facts, base) if isinstance(base, ast.Name) else _imported(facts, name) if name else None
        if found is not None and isinstance(found.scope.node, ast.ClassDef) and found.scope is not owner:
            yield found.facts, found.scope
            yield from _bases_of(found.facts, found.scope, depth + 1)


def find_method(facts: FileFacts, owner: Scope, name: str) -> Definition | None:
    """A method of a class or of the classes it derives from."""
    for each_facts, each in itertools.chain([(facts, owner)], bases_of(facts, owner)):
        for inner in each.inner:
            if inner.name == name:
                return Definition(each_facts, inner)
    return None


def is_abstract(method: Scope) -> bool:
    """Whether a method does nothing: it is there to be written by subclasses."""
    return all(
        isinstance(each, ast.Pass | ast.Raise)
        or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        for each in method.body
    )


def _of_the_only_subclass(facts: FileFacts, owner: Scope, name: str) -> Definition | None:
    """A method that a class leaves to its subclasses, if one class alone of the file writes it."""
    found = [
        each
        for below in facts.subclasses.get(owner.name, ())
        for each in below.inner
        if below.parent is owner.parent and each.name == name and not is_abstract(each)
    ]
    return Definition(facts, found[0]) if len(found) == 1 else None


def fields_of(found: Definition) -> list[str]:
    """The fields of a dataclass or named tuple in order; none of a class with an `__init__`."""
    if not isinstance(found.scope.node, ast.ClassDef) or find_method(found.facts, found.scope, "__init__"):
        return []
    below = [scope for _, scope in bases_of(found.facts, found.scope)]
    return list(dict.fromkeys(name for scope in (*reversed(below), found.scope) for name in _own_fields(scope)))


def fields_of_named_tuple(facts: FileFacts, node: ast.expr) -> list[str]:
    """The fields of `Best`, where `Best = namedtuple("Best", "score state")` stands in the file."""
    bound = facts.bindings(node) if isinstance(node, ast.Name) else []
    match [each.value for each in bound]:
        case [ast.Call(args=[_, ast.Constant(value=str() as names)]) as made] if called_name(made) == "namedtuple":
            return names.replace(",", " ").split()
        case [ast.Call(args=[_, ast.List(elts=names) | ast.Tuple(elts=names)]) as made]:
            is_it = called_name(made) == "namedtuple"
            return [str(each.value) for each in names if isinstance(each, ast.Constant)] if is_it else []
    return []


def _own_fields(scope: Scope) -> Iterator[str]:
    for each in scope.nodes(ast.AnnAssign):
        is_of_class = "ClassVar" in ast.unparse(each.annotation)
        options = each.value.keywords if isinstance(each.value, ast.Call) else []
        is_left_out = any(
            isinstance(word.value, ast.Constant) and (word.arg, word.value.value) in _LEFT_OUT for word in options
        )
        if isinstance(each.target, ast.Name) and not is_of_class and not is_left_out:
            yield each.target.id


def _imported(facts: FileFacts, name: str, depth: int = 0) -> Definition | None:
    module, _, last = name.rpartition(".")
    if not module.strip("."):
        module = module + "." if module else ""
    if name.startswith(".") and name.count(".") == len(name) - len(last):
        module = name[: len(name) - len(last)]
    if not module:
        return None
    other = facts.project.find(module, facts.source.path)
    if other is None or depth > _DEEPEST:
        return None
    bound = other.module.bindings.get(last, [])
    if len(bound) != 1:
        return None
    if bound[0].how == "definition":
        return Definition(other, other.scope_of(bound[0].node))
    if bound[0].how == "import" and last in other.imports:
        return _imported(other, other.imports[last], depth + 1)
    return None


def matched_arguments(call: ast.Call, function: Scope) -> Iterator[tuple[ast.arg, ast.expr]]:
    """Each parameter of a function with what a call gives for it, the object of a method among them."""
    parameters, of = function.parameters, object_of(call, function)
    if function.name == _MADE_BY != called_name(call) and function.self_name:
        parameters = parameters[1:]  # the object that is made
    elif function.self_name and of is not None and parameters[0].arg == function.self_name:
        yield parameters[0], of
        parameters = parameters[1:]
    by_place = parameters[: len(parameters) - function.by_keyword_only]
    if not any(isinstance(each, ast.Starred) for each in call.args):
        yield from zip(by_place, call.args, strict=False)
    by_name = {each.arg: each for each in parameters}
    yield from ((by_name[each.arg], each.value) for each in call.keywords if each.arg in by_name)


def is_decorated_to(found: Definition, *names: str) -> bool:
    """Whether a decorator of the project returns what something that is named so makes of a result."""
    for each in getattr(found.scope.node, "decorator_list", ()):
        by = find_definition(found.facts, each.func if isinstance(each, ast.Call) else each)
        if (
            by is not None
            and by.scope.is_function
            and any(
                isinstance(node, ast.Call) and called_name(node) in names
                for value in _values_returned(by.scope.node)
                for node in ast.walk(value)
            )
        ):
            return True
    return False


def _values_returned(function: ast.AST) -> Iterator[ast.expr]:
    """What a function and those in it return, and what names that are returned are bound to."""
    returned = [
        each.value for each in ast.walk(function) if isinstance(each, ast.Return) and each.value is not None
    ]
    names = {each.id for each in returned if isinstance(each, ast.Name)}
    yield from returned
    for at in ast.walk(function):
        if isinstance(at, ast.Assign) and any(
            isinstance(each, ast.Name) and each.id in names for each in at.targets
        ):
            yield at.value


def returned_by(found: Definition) -> Returned:
    """What a function gives back; what one that calls itself gives back there is unknown."""
    facts, scope = found.facts, found.scope
    known = facts.returned
    if scope.node not in known:
        known[scope.node] = Returned()
        if not isinstance(scope.node, ast.ClassDef):
            known[scope.node] = _returned(facts, scope)
    return known[scope.node]


def done_by(found: Definition, depth: int = 0) -> Doings:
    """What a function does, itself or by calls, and calls of calls, down to the deepest that are followed.

    It is kept by depth: from a function further below, fewer calls are left to be followed, and which one was asked
    about first must not decide what is seen.
    """
    facts, scope = found.facts, found.scope
    if not scope.is_function:
        return Doings()
    known, key = facts.done, (scope.node, depth)
    if key not in known:
        own, called = _done_here(found)
        for each in called if depth < _DEEPEST else ():
            if own.steps and own.synchronises:
                break
            below = done_by(each, depth + 1)
            own = Doings(own.steps or below.steps, own.synchronises or below.synchronises)
        known[key] = own
    return known[key]


def takes_steps(found: Definition | None) -> bool:
    """Whether it is a function of the project that takes an optimizer's step, itself or by calls."""
    return found is not None and found.scope.is_function and done_by(found).steps


def _done_here(found: Definition) -> tuple[Doings, tuple[Definition, ...]]:
    """What the lines of a function do by themselves, and which functions of the project they call."""
    facts, scope = found.facts, found.scope
    known = facts.done_here
    if scope.node not in known:
        steps, synchronises = any(_updates_parameter(facts, each) for each in scope.nodes(ast.AugAssign)), False
        called: dict[ast.AST, Definition] = {}
        for call in scope.nodes(ast.Call):
            name = called_name(call)
            if is_optimizer_step(facts, call):
                steps = True
            elif name in _WAITS:
                synchronises = True
            elif is_in_place(name) and (parameter := _parameter_of(facts, call)) is not None:
                steps |= not _is_made_here(facts, parameter)
            elif name not in _BACKWARDS:
                inner = facts.definition(call.func)
                if inner is not None and inner.scope.is_function:
                    called[inner.scope.node] = inner
        known[scope.node] = Doings(steps, synchronises), tuple(called.values())
    return known[scope.node]


def _updates_parameter(facts: FileFacts, at: ast.AugAssign) -> bool:
    """Whether a statement is a step that is written out: `p.data -= lr * p.grad`."""
    inner, methods = strip_calls(at.target, "data")
    is_silent = "data" in methods or facts.is_without_graph(at)
    return is_silent and facts.kind_of(inner).name == "parameter" and not _is_made_here(facts, at.target)


def _parameter_of(facts: FileFacts, call: ast.Call) -> ast.expr | None:
    """The parameter whose method is called, if it is one's."""
    if not isinstance(call.func, ast.Attribute):
        return None
    inner, _ = strip_calls(call.func.value, "data", "detach")
    is_weight = isinstance(inner, ast.Attribute) and inner.attr in ("weight", "bias")
    return call.func.value if is_weight or facts.kind_of(inner).name == "parameter" else None


def _is_made_here(facts: FileFacts, node: ast.expr) -> bool:
    """Whether a parameter is of a module that the function made: `layer = Layer(); layer.weight.fill_(1)`."""
    root = root_of(strip_calls(node, "data", "detach")[0])
    container = container_of(facts, root) if isinstance(root, ast.Name) else None
    if isinstance(container, ast.Call) and isinstance(container.func, ast.Attribute):
        root = root_of(container.func.value)
    bound = facts.scope_of(node).bindings.get(root.id, []) if isinstance(root, ast.Name) else []
    return bool(bound) and all(each.how == "value" and isinstance(each.value, ast.Call) for each in bound)


def _returned(facts: FileFacts, scope: Scope) -> Returned:
    if isinstance(scope.node, ast.Lambda):
        return Returned(facts.kind_of(scope.node.body))
    if scope.has(ast.Yield, ast.YieldFrom) or isinstance(scope.node, ast.AsyncFunctionDef):
        return Returned()
    values = [each.value for each in scope.nodes(ast.Return) if each.value is not None]
    if not values:
        return Returned()
    if all(isinstance(each, ast.Tuple) for each in values):
        rows = [[facts.kind_of(one) for one in each.elts] for each in values if isinstance(each, ast.Tuple)]
        if len({len(row) for row in rows}) == 1:
            return Returned(Kind("list"), tuple(joined(list(column)) for column in zip(*rows, strict=True)))
        return Returned(Kind("list"))
    return Returned(joined([facts.kind_of(each) for each in values]))


def is_optimizer_step(facts: FileFacts, call: ast.Call) -> bool:
    """Whether a call is an optimizer's `step`: by its kind, its name, or being a scaler's that is given one."""
    if called_name(call) != "step" or not isinstance(call.func, ast.Attribute):
        return False
    of = call.func.value
    while isinstance(of, ast.Subscript):
        of = of.value
    last = of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")
    lower = last.lower()
    if any(word in lower for word in ("opt", "scaler", "adam", "sgd", "engine")):
        return "sched" not in lower
    return facts.kind_of(of).name == "optimizer"
