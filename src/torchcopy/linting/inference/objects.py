"""Of which class of the project an object is: by the call that made it, an annotation, or what callers give."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .nodes import called_name, method_call, path_of, strip_calls
from .scopes import Binding, Scope
from .summaries import GIVES_ITSELF, Definition, bases_of, find_method, find_named, matched_arguments
from .values.elements import container_of

if TYPE_CHECKING:
    from .file_facts import FileFacts

_DEEPEST = 4  # names of names
_MOST_CALLERS = 10
_MOST_BINDINGS = 10
_PROPERTIES = ("property", "cached_property", "setter")
_DICTS = ("dict", "OrderedDict")
_OF_ONE_KIND = ("List", "Sequence", "Iterable", "Dict", "Mapping", "list", "dict", "defaultdict", "OrderedDict")


def class_of(facts: FileFacts, node: ast.expr | None, depth: int = 0) -> Definition | None:
    """The class whose object an expression gives, if all that it may be bound to is made of that class."""
    if node is None or depth > _DEEPEST:
        return None
    node = strip_calls(node, *GIVES_ITSELF)[0]
    match node:
        case ast.Call(func=ast.Attribute(attr="setdefault"), args=[_, default]):
            return class_of(facts, default, depth + 1)
        case ast.Call(func=ast.Attribute() as func) if not facts.resolve(func):
            return None  # a method that makes objects: `maker.make()`
        case ast.Call(func=func):
            found = find_named(facts, func)
            return found if found is not None and isinstance(found.scope.node, ast.ClassDef) else None
        case ast.Name():
            return _class_of_bound(facts, node, facts.bindings(node), depth)
        case ast.Attribute():
            bound = facts.attribute_bindings(node)
            if bound:
                return _class_of_bound(facts, node, bound, depth)
            return _class_of_inherited(facts, node, depth) or _class_of_part(facts, node, depth)
        case ast.Subscript(value=of):
            return _class_of_entries(facts, of, depth)
    return None


def is_property(facts: FileFacts, node: ast.Attribute) -> bool:
    """Whether a class of the project says what reading or setting this attribute of its objects does."""
    return property_read(facts, node) is not None


def property_read(facts: FileFacts, node: ast.Attribute) -> Definition | None:
    """The method that gives an attribute its value, or takes it, where it is a property in the project."""
    found = class_of(facts, node.value)
    scope = facts.scope_of(node)
    if isinstance(node.value, ast.Name) and node.value.id == scope.self_name and scope.owner is not None:
        found = Definition(facts, scope.owner)
    method = find_method(found.facts, found.scope, node.attr) if found is not None else None
    made_by = getattr(method.scope.node, "decorator_list", ()) if method is not None else ()
    names = ((path_of(each) or "").rpartition(".")[2] for each in made_by)
    return method if any(each in _PROPERTIES for each in names) else None


def differentiates_itself(facts: FileFacts, node: ast.expr) -> bool:
    """Whether an expression is no tensor, but an object of a class of the project with a `backward` of its own."""
    bound = facts.bindings(node) if isinstance(node, ast.Name) else []
    made = [each.value for each in bound[:_MOST_BINDINGS]]
    given = [each for each in (facts.definition(one.func) for one in made if isinstance(one, ast.Call)) if each]
    found = [class_of(facts, node)] if not any(each.scope.is_function for each in given) else []
    found += [
        class_of(each.facts, at.value)
        for each in given
        if each.scope.is_function
        for at in each.scope.nodes(ast.Return)
    ]
    return bool(found) and all(each is not None and _has_backward(each) for each in found)


def methods_of_each(facts: FileFacts, call: ast.Call) -> Iterator[Scope]:
    """The methods of this name of all classes of the file, where one of each of some objects is called.

    So is `callback.on_step(loss)` in a loop over `self.callbacks`.
    """
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    methods = facts.methods_by_name.get(called_name(call), ())
    through = container_of(facts, of) if methods and isinstance(of, ast.Name) else None
    if through is None or class_of(facts, of) is not None:
        return
    known = _classes_in(facts, through)
    yield from (each for each in methods if known is None or each.parent in known)


def _classes_in(facts: FileFacts, container: ast.expr) -> list[Scope] | None:
    """The classes of the objects of a list that is written in the file; nothing where one of them is not known."""
    bound = facts.bindings(container) if isinstance(container, ast.Name) else []
    if isinstance(container, ast.Attribute):
        bound = facts.attribute_bindings(container)
    written = bound[0].value if len(bound) == 1 else container
    if not isinstance(written, ast.List | ast.Tuple) or [*_put_in(facts, container)]:
        return None
    found = [class_of(facts, each) for each in written.elts]
    return None if any(each is None for each in found) else [each.scope for each in found if each is not None]


def _has_backward(found: Definition) -> bool:
    return find_method(found.facts, found.scope, "backward") is not None


def is_no_list(facts: FileFacts, node: ast.expr) -> bool:
    """Whether a place is an imported module, or an object of a class, whose `append` or `add` is its own."""
    if facts.resolve(node) or class_of(facts, node) is not None:
        return True
    bound = facts.bindings(node) if isinstance(node, ast.Name) else []
    if isinstance(node, ast.Attribute):
        bound = facts.attribute_bindings(node)
    if any(each.how == "entered" for each in bound):  # `with open(path) as log`
        return True
    made = [each.value for each in bound if isinstance(each.value, ast.Call)]
    if any(facts.resolve(each.func) == "array.array" for each in made):
        return True
    is_made = bool(made) and len(made) == len(bound)
    return is_made and all(called_name(each).lstrip("_")[:1].isupper() for each in made)


def _class_of_bound(facts: FileFacts, node: ast.expr, bound: list[Binding], depth: int) -> Definition | None:
    if len(bound) > _MOST_BINDINGS:
        return None
    own = path_of(node)
    made = [
        each
        for each in bound
        if each.value is not None
        and not (isinstance(each.value, ast.Constant) and each.value.value is None)
        and path_of(strip_calls(each.value, *GIVES_ITSELF)[0]) != own
    ]
    if made:
        if any(each.how not in ("value", "entered") for each in made):
            return None
        return _agreed(class_of(facts, each.value, depth + 1) for each in made)
    if len(bound) == 1 and isinstance(bound[0].node, ast.arg):
        return _class_of_parameter(facts, bound[0].node, depth)
    return _annotated(facts, bound[0].annotation) if len(bound) == 1 else None


def _class_of_parameter(facts: FileFacts, parameter: ast.arg, depth: int) -> Definition | None:
    """What its annotation says, or else what all calls in the same file give for it."""
    known, key = facts.classes_of_parameters, (parameter, depth)
    if key not in known:
        known[key] = None  # a function that gives it to itself tells nothing
        known[key] = _annotated(facts, parameter.annotation) or _given_by_callers(facts, parameter, depth)
    return known[key]


def _given_by_callers(facts: FileFacts, parameter: ast.arg, depth: int) -> Definition | None:
    return _agreed(class_of(facts, each, depth + 1) for each in _given_values(facts, parameter))


def _given_values(facts: FileFacts, parameter: ast.arg) -> list[ast.expr]:
    """What all calls in the same file give for a parameter; nothing where they are too many."""
    function = facts.scope_of(parameter)
    owner = function.owner if function.name == "__init__" else None
    called = owner if owner is not None else function
    calls = facts.calls_by_name.get(called.name, ())
    if not called.name or not calls or len(calls) > _MOST_CALLERS:
        return []
    given = []
    for call in calls:
        found = facts.definition(call.func)
        if found is not None and found.scope is called:
            given += [value for each, value in matched_arguments(call, function) if each is parameter]
    return given


def _class_of_inherited(facts: FileFacts, node: ast.Attribute, depth: int) -> Definition | None:
    """Of what a base class of the project keeps in `self.x`."""
    scope = facts.scope_of(node)
    if scope.owner is None or path_of(node.value) != scope.self_name:
        return None
    for base_facts, base in bases_of(facts, scope.owner):
        bound = base_facts.class_attributes(base).get(node.attr, [])
        made = [each.value for each in bound if each.how == "value" and not isinstance(each.value, ast.Constant)]
        if made:
            return _agreed(class_of(base_facts, each, depth + 1) for each in made)
    return None


def _class_of_part(facts: FileFacts, node: ast.Attribute, depth: int) -> Definition | None:
    """Of an attribute of an object of the project: `self.result.losses`."""
    scope = facts.scope_of(node)
    if isinstance(node.value, ast.Name) and node.value.id in (scope.self_name, *facts.imports):
        return None
    owner = class_of(facts, node.value, depth + 1) if isinstance(node.value, ast.Name | ast.Attribute) else None
    if owner is None:
        return None
    bound = owner.facts.class_attributes(owner.scope).get(node.attr, [])
    told = next((each.annotation for each in bound if each.annotation is not None), None)
    if told is not None:
        return _annotated(owner.facts, told)
    return _agreed(class_of(owner.facts, each.value, depth + 1) for each in bound)


def _class_of_entries(facts: FileFacts, of: ast.expr, depth: int) -> Definition | None:
    """Of what a list or dict holds: `meters["loss"]`, where that is `{"loss": Meter(), "time": Meter()}`."""
    match of:
        case ast.Name():
            bound = facts.bindings(of)
        case ast.Attribute():
            bound = facts.attribute_bindings(of)
        case _:
            return None
    values: list[ast.expr] = [*_put_in(facts, of)]
    for each in bound:
        match each.value:
            case ast.Dict(values=entries) | ast.List(elts=entries) | ast.Tuple(elts=entries):
                values += entries
            case ast.DictComp(value=entry) | ast.ListComp(elt=entry):
                values.append(entry)
            case ast.Call(args=[ast.Name() as made]) as call if called_name(call) == "defaultdict":
                found = facts.definition(made)
                return found if found is not None and isinstance(found.scope.node, ast.ClassDef) else None
            case ast.Call(args=[ast.Lambda(body=body)]) as call if called_name(call) == "defaultdict":
                values.append(body)
            case ast.Call(args=[], keywords=entries) as call if called_name(call) in _DICTS:
                values += [one.value for one in entries]
            case None if isinstance(each.node, ast.arg):
                return _class_of_entries_given(facts, each.node, depth)
            case _:
                return None
    return _agreed(class_of(facts, each, depth + 1) for each in values)


def _class_of_entries_given(facts: FileFacts, parameter: ast.arg, depth: int) -> Definition | None:
    """Of what the list or dict holds that a parameter is: by its annotation, or by what all callers give."""
    known, key = facts.classes_of_entries, (parameter, depth)
    if key not in known:
        known[key] = None  # a function that gives it to itself tells nothing
        told = _annotated(facts, parameter.annotation, is_entry=True)
        given = _given_values(facts, parameter) if told is None and depth < _DEEPEST else ()
        known[key] = told or _agreed(_class_of_entries(facts, one, depth + 1) for one in given)
    return known[key]


def _put_in(facts: FileFacts, of: ast.expr) -> Iterator[ast.expr]:
    """What the function puts into a list or dict later, entry by entry."""
    path, scope = path_of(of), facts.scope_of(of)
    for at in scope.nodes(ast.Assign):
        if any(isinstance(each, ast.Subscript) and path_of(each.value) == path for each in at.targets):
            yield at.value
    for call in scope.nodes(ast.Call):
        if path_of(method_call(call, "append", "update", "setdefault", "insert")) == path:
            yield from call.args[-1:]
            yield from (each.value for each in call.keywords)


def _annotated(facts: FileFacts, annotation: ast.expr | None, *, is_entry: bool = False) -> Definition | None:
    """The class that an annotation names: `Meter`, `"Meter"`, `Optional[Meter]`; or that of its entries."""
    match annotation:
        case ast.Constant(value=str() as text) if text.isidentifier() and not is_entry:
            bound = facts.module.bindings.get(text, [])
            is_here = len(bound) == 1 and isinstance(bound[0].node, ast.ClassDef)
            return Definition(facts, facts.scope_of(bound[0].node)) if is_here else None
        case ast.BinOp(op=ast.BitOr(), left=left, right=ast.Constant(value=None)):
            return _annotated(facts, left, is_entry=is_entry)
        case ast.Subscript(value=ast.Name(id="Optional") | ast.Attribute(attr="Optional"), slice=inside):
            return _annotated(facts, inside, is_entry=is_entry)
        case ast.Subscript(value=ast.Name(id=outer) | ast.Attribute(attr=outer), slice=inside) if (
            is_entry and outer in _OF_ONE_KIND
        ):
            return _annotated(facts, inside.elts[-1] if isinstance(inside, ast.Tuple) else inside)
        case ast.Name() | ast.Attribute() if not is_entry:
            found = facts.definition(annotation)
            return found if found is not None and isinstance(found.scope.node, ast.ClassDef) else None
    return None


def _agreed(found: Iterable[Definition | None]) -> Definition | None:
    """The one class of all of these, if it is one."""
    first: Definition | None = None
    for each in found:
        if each is None or (first is not None and each.scope is not first.scope):
            return None
        first = each
    return first
