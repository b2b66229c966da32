"""Which values had `backward()` called on them, by which binding of a name they came to be, and what keeps them.

A binding is followed, not a name: `loss = loss.item()` makes another value of the same name.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import Loop, arguments, called_name, is_true, keyword, method_call, path_of, root_name, walk
from ..objects import differentiates_itself, is_no_list
from ..scopes import Scope
from .callers import differentiated_parts
from .differentiated import BACKWARDS
from .lightning import is_training_step
from .loss_bindings import LossBindings
from .loss_containers import replaced_in
from .loss_names import is_loss_like, is_surely_loss, mentions_loss
from .loss_objects import entries_in, held_by_object
from .loss_places import branches, list_of, place_of
from .loss_terms import detaches, entries_of, shown, terms
from .loss_values import ANY, Given, Part, Value, key_in

if TYPE_CHECKING:
    from ..file_facts import FileFacts
    from ..summaries import Definition
    from .graph_steps import GraphSteps, Origins
    from .loss_keepers import Keeper

_DRIVERS = tuple("self accelerat engine fabric trainer amp strategy autograd optim booster".split())
_SCALES = ("scale", "scale_loss")
_KEEPERS = ("append", "extend", "add", "appendleft", "insert")
_LOOPS_OF_LIGHTNING = re.compile(r"trainer\.\w+_loop\.")
_TAKES_OLDEST = ("pop", "popleft")


class Losses(LossBindings):
    """Follows the bindings of one function to `backward()` and to what keeps them."""

    def __init__(self, facts: FileFacts, scope: Scope) -> None:
        super().__init__(facts, scope)
        self.backward_places: set[str] = set()
        self.backward_loops: set[Loop] = set()
        self.summed_elsewhere: set[Value] = set()  # differentiated behind the loop that made them
        self.is_for_caller = False
        """What is differentiated is so by a caller alone."""
        self.returned: list[tuple[Part, frozenset[Value]]] = []
        self.returned_expressions: list[tuple[Part, ast.expr | Value]] = []
        """As they are written, or the values of entries of what is returned by its name."""
        self.given: dict[tuple[ast.expr, ast.Call], Given] = {}
        self.hot: dict[int, set[Value]] = {}
        """What `hot_losses.py` found, by how many calls were followed before."""
        self.needed: set[Value] | None = None
        """What `needed_values` of `hot_losses.py` found."""
        self.figures: frozenset[Value] | None = None
        """What `figures.py` found; by which outputs of models that are trained, and other places, it did."""
        self.trained_outputs: Origins | None = None
        self.outputs_for_callers: tuple[Origins, Origins] | None = None
        self.read_by_losses: frozenset[str] = frozenset()
        self.graph_steps: dict[int, GraphSteps] = {}
        """What `graph_steps.py` found, by how many calls were followed before."""
        self.shown: frozenset[Value] | None = None
        """What `shown_tensors.py` found: what is in lists of whose elements the numbers are asked for."""
        self.keeps: dict[tuple[Value, int, str | int | None], Keeper | None] = {}
        """Where `loss_keepers.py` found parameters to be kept, by how many calls were followed before."""

    def visit(self, node: ast.AST, facts: frozenset[Value]) -> frozenset[Value]:
        """Notes what is differentiated, kept and returned, and follows what is bound."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            return facts
        for each in walk(node):
            if isinstance(each, ast.Call):
                self._call(each, facts)
        for container, key in replaced_in(node, self.facts.parent(node)):
            facts = self._replaced(container, key, node, facts)
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    of = target.value if isinstance(target, ast.Subscript) else None
                    if (
                        isinstance(target, ast.Subscript)
                        and self.is_slot_of_a_round(target)
                        and not self.is_object(of)
                    ):
                        for kept in shown(value) if isinstance(value, ast.Dict | ast.Tuple | ast.List) else [value]:
                            self.keep(kept, node, place_of(target.value) or "", False, facts)
                    facts = self.bind(target, value, node, facts)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                facts = self.bind(target, value, node, facts)
            case ast.AugAssign(target=target, value=value, op=op):
                facts = self.augment(target, value, op, node, facts)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=of, attr="detach_"))):
                facts = self.rebind(place_of(of), None, facts)
            case ast.Return(value=value) if value is not None:
                self._return(value, (), facts)
            case ast.Expr(value=ast.Yield(value=value)) if value is not None:
                self._return(value, (ANY,), facts)
            case ast.withitem(context_expr=ast.Call() as scaled, optional_vars=ast.Name() as target) if (
                called_name(scaled) in _SCALES and scaled.args
            ):
                facts = self.bind(target, scaled.args[0], node, facts)
            case ast.Name() | ast.Tuple() | ast.withitem():
                inside = node.optional_vars if isinstance(node, ast.withitem) else node
                for name in ast.walk(inside) if inside is not None else ():
                    if isinstance(name, ast.Name) and type(name.ctx) is ast.Store:
                        facts = self.rebind(name.id, None, facts)
        return facts

    def _replaced(
        self, container: str, key: str | int | None, at: ast.AST, facts: frozenset[Value]
    ) -> frozenset[Value]:
        """After an entry of a dict or object, or any of them, is no more what it was."""
        whole = {each for each in facts if each.place == container and isinstance(each.source, ast.Call | ast.Dict)}
        if key is None:
            return self.rebind(container, Value(container, at), facts) if whole else facts
        for each in whole:
            of = dataclasses.replace(each, is_changed=True)
            self.parts.setdefault(of, set()).update(self.parts.get(each, ()))
            facts = (facts - {each}) | {of}
        if isinstance(at, ast.Delete | ast.Expr):
            for place in (f"{container}[{key!r}]", f"{container}.{key}"):
                facts = self.rebind(place, Value(place, at) if whole else None, facts)
        return facts

    def _return(self, value: ast.expr, part: Part, facts: frozenset[Value]) -> None:
        """Notes what is returned, and what is in it: parts of a tuple, entries of a dict, attributes."""
        if isinstance(value, ast.Tuple | ast.List) and (part or isinstance(value, ast.Tuple)):
            for index, each in enumerate(value.elts):
                self._return(each, (*part, index), facts)
            return
        self.returned.append((part, self.values(value, facts)))
        self.note_reads(Value("", value, value), value, facts)
        self.returned_expressions.append((part, value))
        for index, (key, entry) in enumerate(entries_in(self.facts, value)):
            self._return(entry, (*part, key), facts)
            if isinstance(value, ast.Call) and index < len(value.args):
                self._return(entry, (*part, index), facts)  # of a named tuple
        if isinstance(value, ast.Name):
            inside: dict[str | int, set[Value]] = {}
            for known in facts:
                if (at := key_in(known.place, value.id)) is not None:
                    inside.setdefault(at, set()).add(known)
                elif known.place.startswith(f"{value.id}["):
                    inside.setdefault(ANY, set()).add(known)  # under a name
            self.returned += [((*part, at), frozenset(values)) for at, values in inside.items()]
            self.returned_expressions += [((*part, at), each) for at, values in inside.items() for each in values]

    def _call(self, call: ast.Call, facts: frozenset[Value]) -> None:
        name = called_name(call)
        if name in BACKWARDS:
            self._backward(call, facts)
        elif name == "grad" and self.facts.resolve(call.func) == "torch.autograd.grad" and call.args:
            is_loss = len(call.args) < 3 and keyword(call, "grad_outputs") is None
            is_shared = any(keyword(call, each) is not None for each in ("create_graph", "retain_graph"))
            if is_loss and not is_shared and place_of(call.args[0]) is not None:
                self.backwards |= self.values(call.args[0], facts)
        elif name == "add_" and len(call.args) == 1 and (keeper := place_of(getattr(call.func, "value", None))):
            self.keep(call.args[0], call, keeper, True, facts)
        elif self._is_put_in_list(call):
            of: ast.expr = call.func.value  # type: ignore[attr-defined]
            if name != "add" or _is_set(self.facts, of):  # which may be of a meter that no class is known of
                self._put_in_list(call, list_of(of), facts)
        elif name == "update" and (keeper := place_of(getattr(call.func, "value", None))) is not None:
            for inside in self._put_under_rounds(call):
                self.keep(inside, call, keeper, False, facts)
            self._give_all(call, facts)
        else:
            self._give_all(call, facts)

    def _put_in_list(self, call: ast.Call, keeper: str | None, facts: frozenset[Value]) -> None:
        """Notes what `losses.append(loss)` keeps, and what is inside of it."""
        last = call.args[-1]
        is_number = isinstance(last, ast.BinOp | ast.UnaryOp | ast.Call) and self.facts.is_without_graph(call)
        for kept in shown(last) if keeper is not None and not is_number else ():
            self.keep(kept, call, keeper or "", False, facts)
            for inside in held_by_object(self.facts, kept):
                self.keep(inside, call, keeper or "", False, facts)

    def _give_all(self, call: ast.Call, facts: frozenset[Value]) -> None:
        for each in arguments(call) if isinstance(call.func, ast.Name | ast.Attribute) else ():
            self._give(each, call, facts)

    def _put_under_rounds(self, call: ast.Call) -> Iterator[ast.expr]:
        """What each round puts into a dict under its own number: of `history.update({step: loss})`."""
        for given in call.args:
            if isinstance(given, ast.Dict):
                yield from (
                    value
                    for key, value in zip(given.keys, given.values, strict=True)
                    if key is not None and self.is_of_a_round(key)
                )

    def _is_put_in_list(self, call: ast.Call) -> bool:
        """Whether a call is `losses.append(loss)` or the like, not a method of that name of a class."""
        name = called_name(call)
        is_one = isinstance(call.func, ast.Attribute) and len(call.args) == (2 if name == "insert" else 1)
        if is_one and _LOOPS_OF_LIGHTNING.search(path_of(call.func) or ""):
            return False  # keeps numbers
        return is_one and name in _KEEPERS and not is_no_list(self.facts, call.func.value)  # type: ignore[attr-defined]

    def _give(self, argument: ast.expr, call: ast.Call, facts: frozenset[Value]) -> None:
        named = dict(entries_of(argument)) if isinstance(argument, ast.Dict) else {}
        entries = [*named.values()]
        held: dict[ast.expr, Value] = {}
        of_losses = [each for key, each in named.items() if mentions_loss(key)]
        if isinstance(argument, ast.Name):
            inside = sorted((each for each in facts if each.place.startswith(f"{argument.id}[")), key=_order)
            held = {each.source: each for each in inside if each.source is not None and not each.part}
            entries = [*held]
        for node in entries or [argument]:
            places = {place: term for term in terms(node) if (place := path_of(term)) is not None}
            values = frozenset(value for term in places.values() for value in self.values(term, facts))
            values |= {held[node]} if node in held else frozenset()
            is_named = node in of_losses or any(mentions_loss(place) for place in places)
            if values:
                before = self.given.get((node, call))
                known = before.values if before else frozenset()
                key: str | int | None = next((each for each, entry in named.items() if entry is node), None)
                if key is None and node in held:
                    key = key_in(held[node].place, path_of(argument) or "")
                self.given[node, call] = Given(node, argument, call, values | known, is_named, key)

    def _backward(self, call: ast.Call, facts: frozenset[Value]) -> None:
        of = call.func.value if isinstance(call.func, ast.Attribute) else None
        driver = (path_of(of) or "").lower().rpartition(".")[2]
        is_driver = called_name(call) == "manual_backward" or any(each in driver for each in _DRIVERS)
        if is_driver or self._is_given_to_model(call, driver):
            of = call.args[0] if call.args else None
        elif any(not (is_surely_loss(driver) and _may_be_weights(each)) for each in _gradients(call)):
            return  # of what is no loss
        if is_true(keyword(call, "create_graph")):
            return  # the graph is wanted
        while isinstance(of, ast.Call) and called_name(of) in _SCALES:
            of = of.args[0] if of.args else None
        if of is None or differentiates_itself(self.facts, of):
            return
        if isinstance(of, ast.List | ast.Tuple):  # `torch.autograd.backward([a, b])`
            self.backwards.update(value for one in of.elts for value in self.values(one, facts))
        self.backward_loops.update(self.facts.loops(call))
        if isinstance(of, ast.Subscript) and isinstance(of.slice, ast.UnaryOp):
            self.backwards |= self.values(of.value, facts)  # `losses[-1].backward()`: of all that a call gave
        for each in ast.walk(of):
            if (path := path_of(each)) is not None:
                self.backward_places.add(path)
        if place_of(of) is not None:
            values = self.values(of, facts)
            if not values and isinstance(of, ast.Attribute):  # `found = step(loss)`, `found.value.backward()`
                values = self.values(of.value, facts)
            self.backwards |= values
            loop = self.facts.loops(call)[:1]
            self.summed_elsewhere |= {
                each for each in values if each.source is not None and self.facts.loops(each.node)[:1] != loop
            }
        else:
            made = Value("", call, of)
            self.backwards.add(made)
            self.relate(made, of, facts)
            divided = of.left if isinstance(of, ast.BinOp) and isinstance(of.op, ast.Div) else of
            places = [each for each in terms(divided) if place_of(each) is not None]
            if len(places) == 1 or (places and isinstance(of, ast.BinOp) and isinstance(of.op, ast.Div | ast.Mult)):
                self.backwards |= self.values(places[0], facts)

    def _is_given_to_model(self, call: ast.Call, receiver: str) -> bool:
        """Whether a loss is given to what is no loss, as in `model.backward(loss)` of a library around PyTorch."""
        given = path_of(call.args[0]) if len(call.args) == 1 and receiver else None
        if given is None or not is_loss_like(given) or is_loss_like(receiver):
            return False
        return self.facts.is_of_torch and self.facts.definition(call.func) is None

    def differentiate_returned(self, parts: set[Part]) -> None:
        """Takes in that some parts of what the function returns are differentiated by its caller."""
        self.backwards |= {each for part, values in self.returned if part in parts for each in values}

    @functools.cached_property
    def backward_calls(self) -> list[ast.Call]:
        """The calls of `backward` in the function."""
        return [each for each in self.scope.nodes(ast.Call) if called_name(each) in BACKWARDS]

    @functools.cached_property
    def backward_ways(self) -> list[frozenset[tuple[ast.If, bool]]]:
        """The branches that each call of `backward` is in."""
        return [frozenset(branches(self.facts, each, None)) for each in self.backward_calls]

    @functools.cached_property
    def cut(self) -> frozenset[str]:
        """The lists from which the oldest entries are taken."""
        taken = (path_of(method_call(each, *_TAKES_OLDEST)) for each in self.scope.nodes(ast.Call))
        return frozenset(each for each in taken if each is not None)

    @functools.cached_property
    def detachings(self) -> dict[str, list[ast.Assign | ast.Expr]]:
        """The statements that detach a place, by place: `total = total.detach()`, `loss.detach_()`.

        One that detaches the entry of an entry is also found by the entry: `kept[-1]["loss"]` by `kept[-1]`.
        """
        found: dict[str, list[ast.Assign | ast.Expr]] = {}
        for called in self.scope.nodes(ast.Expr):
            if (place := place_of(method_call(called.value, "detach_"))) is not None:
                found.setdefault(place, []).append(called)
        for at in self.scope.nodes(ast.Assign):
            for target, value in _assigned(at):
                place = place_of(target)
                if place is None or not detaches(value):
                    continue
                if any(place_of(each) == place for each in ast.walk(value)):
                    found.setdefault(place, []).append(at)
                    outer = place.partition("[-1]")[0] + "[-1]"
                    if place.startswith(f"{outer}["):
                        found.setdefault(outer, []).append(at)
        return found

    @functools.cached_property
    def detaches_in_place(self) -> bool:
        """Whether the function calls `detach_()` on anything."""
        return any(called_name(each) == "detach_" for each in self.scope.nodes(ast.Call))

    @functools.cached_property
    def detached_entries(self) -> frozenset[str]:
        """The lists and dicts of which an entry is replaced by a detached one: `outs[i] = outs[i].detach()`.

        Also those that a function of the project is given for it.
        """
        found = {
            path_of(target.value)
            for at in self.scope.nodes(ast.Assign)
            for target, value in _assigned(at)
            if isinstance(target, ast.Subscript | ast.Attribute) and detaches(value)
        }
        for at in self.scope.nodes(ast.Expr):
            called = self.facts.definition(at.value.func) if isinstance(at.value, ast.Call) else None
            if called is not None and _detaches_inside(called):
                found |= {path_of(each) for each in arguments(at.value)}  # type: ignore[arg-type]
        return frozenset(root_name(path) for path in found if path is not None)

    @property
    def may_have_hot(self) -> bool:
        """Whether the function differentiates something, or gives a loss to another that may."""
        return bool(self.backwards) or any(each.is_named for each in self.given.values())


def _detaches_inside(called: Definition) -> bool:
    """Whether a function detaches anything."""
    return any(detaches(each.value) for each in called.scope.nodes(ast.Assign))


def _order(value: Value) -> tuple[int, int, str]:
    return getattr(value.node, "lineno", 0), getattr(value.source, "col_offset", 0), value.place


def _gradients(backward: ast.Call) -> list[ast.expr]:
    """What gradient other than one a call of `backward` is given, if any."""
    given = (*backward.args[:1], keyword(backward, "gradient"))
    return [each for each in given if each is not None and not _is_one(each)]


def _may_be_weights(gradient: ast.expr) -> bool:
    """Whether what the `backward` of a loss is given may be what its rows weigh: it is not named as a gradient."""
    path = path_of(gradient)
    return path is not None and "grad" not in path.lower()


def _is_one(gradient: ast.expr) -> bool:
    """Whether a gradient that `backward` is given is one, or minus one: `loss.backward(mone)`."""
    name = (path_of(gradient.func if isinstance(gradient, ast.Call) else gradient) or "").rpartition(".")[2]
    return re.search(r"^(m(inus)?_?|neg_?)?ones?(_like)?$", name) is not None


def _is_set(facts: FileFacts, node: ast.expr) -> bool:
    """Whether a place is known to hold a set, or a dict of them."""
    if isinstance(node, ast.Call) and called_name(node) == "setdefault":
        return _makes_set(node.args[-1] if node.args else None)
    of = node.value if isinstance(node, ast.Subscript) else node
    bound = facts.bindings(of) if isinstance(of, ast.Name) else []
    if isinstance(of, ast.Attribute):
        bound = facts.attribute_bindings(of)
    return any(
        _makes_set(each.value)
        or (each.annotation is not None and re.search(r"\b[Ss]et\b", ast.unparse(each.annotation)) is not None)
        for each in bound
    )


def _makes_set(value: ast.expr | None) -> bool:
    """Whether an expression makes a set, or a dict of sets: `set()`, `set[int]()`, `defaultdict(set)`."""
    if isinstance(value, ast.Set | ast.SetComp):
        return True
    made = value.func if isinstance(value, ast.Call) else None
    if made is not None and isinstance(value, ast.Call) and called_name(value) == "defaultdict":
        made = value.args[0] if value.args else None
    return path_of(made.value if isinstance(made, ast.Subscript) else made) == "set"


def _assigned(at: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """What is bound to which first target, one by one in `a, b = c, d`."""
    target, value = at.targets[0], at.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return [*zip(target.elts, value.elts, strict=True)]
    return [(target, value)]


def _may_outlive(scope: Scope, keeper: str) -> bool:
    """Whether a keeper may be there for longer than a function: an attribute, a parameter, a name of outside."""
    root = keeper.partition("[")[0]
    is_given = any(each.arg == root for each in scope.parameters)
    is_of_file = scope.is_function and "." not in root and root not in scope.bindings
    return scope.owns(keeper) or is_given or is_of_file


def _by_any_name(scope: Scope) -> list[ast.arg]:
    """The dict in which a function takes keywords of any name."""
    taken = getattr(getattr(scope.node, "args", None), "kwarg", None)
    return [] if taken is None else [taken]


def losses_of(facts: FileFacts, scope: Scope) -> Losses:
    """The losses of a function, worked out once."""
    known = facts.losses
    if scope not in known:
        losses = known[scope] = Losses(facts, scope)
        given = [*scope.parameters, *_by_any_name(scope)]
        losses.run(scope.body, frozenset(Value(each.arg, each) for each in given))
        if is_training_step(facts, scope):
            losses.differentiate_returned({(), ("loss",)})
        elif any(_may_outlive(scope, each.keeper) for each in losses.kept.values()) and not losses.backwards:
            parts = differentiated_parts(facts, scope)
            losses.differentiate_returned(parts)
            losses.is_for_caller = bool(parts)
    return known[scope]
