"""What shares the parameters of a module, as if it had values of its own, and is read when the module was trained.

A shallow copy, a second name, a list of the parameters: where a name says that the values were to be kept.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

from ..flow import Flow
from ..nodes import assigned, called_name, path_of, strip_calls, walk
from ..scopes import Scope
from .effects import replaced_by
from .entrywise_states import NAMES_OF_SNAPSHOTS
from .module_paths import given_other_tensors, module_of_parameters, module_path
from .parameter_writes import written_module
from .things import is_module
from .training import is_given_back, updates

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_KEPT_MODULE = re.compile(r"(^|_)(best|old|prev|previous|initial|backup|snapshot)(_|$)")
_OLDER_MODULE = re.compile(r"(^|_)(old|prev|previous|past|former|backup|snapshot)(_|$)")
_COPIES = ("copy_", "lerp_", "sub", "sub_", "_foreach_copy_", "_foreach_sub", "parameters_to_vector")
_TELL_NO_VALUE = ("id", "keys", "data_ptr", "len", "type")
_LISTS = ("list", "tuple", "dict", "OrderedDict")


@dataclasses.dataclass(frozen=True, slots=True)
class Shared:
    """Something that shares the parameters of a module.

    Attributes:
        place: where it is kept.
        module: whose parameters they are.
        node: the expression to report.
        what: `another module around the same parameters`, …
        is_trained: the module was trained since.
        is_handle: it is a list of the parameters as they are, which may be there to train, clip or count them.
        is_name: it is another name of the module, and has what is loaded into that.
        is_asked: only where it is called is it read as what it was.
    """

    place: str
    module: str
    node: ast.expr
    what: str
    is_trained: bool = False
    is_handle: bool = False
    is_name: bool = False
    is_asked: bool = False


class SharedParameters(Flow[Shared]):
    """Follows what shares parameters through one function."""

    def __init__(self, facts: FileFacts, scope: Scope) -> None:
        super().__init__()
        self.facts = facts
        self.scope = scope
        self.found: dict[ast.expr, tuple[Shared, ast.AST]] = {}

    def visit(self, node: ast.AST, facts: frozenset[Shared]) -> frozenset[Shared]:
        """Reads, then what is trained, then what is bound."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            return facts
        if facts:
            self._reads(node, facts)
            for each in walk(node):
                if isinstance(each, ast.Call):
                    facts = self._trained(each, facts)
        loop = self.facts.parent(node)
        at = loop if _is_head(loop, node) else node
        others = given_other_tensors(self.facts, at)
        facts = frozenset(one for one in facts if one.module not in others)
        written = [one for each in walk(at) if isinstance(each, ast.Assign) for one in each.targets]
        rewritten = {path_of(each.value) for each in written if isinstance(each, ast.Subscript)}
        facts = frozenset(one for one in facts if one.place not in rewritten)  # `saved[i] = saved[i].clone()`
        for each in walk(node):
            if isinstance(each, ast.Name | ast.Attribute) and type(each.ctx) is ast.Store:
                path = path_of(each)
                if not (isinstance(node, ast.Assign) and is_given_back(self.facts, each, node.value)):
                    facts = frozenset(one for one in facts if path not in (one.place, one.module))
        for place, value in kept_places(node) if isinstance(node, ast.Assign) else ():
            made = shared_by(self.facts, place, value)
            facts |= {made} if made is not None else frozenset()
        return facts

    def _reads(self, node: ast.AST, facts: frozenset[Shared]) -> None:
        by_line = sorted(facts, key=lambda each: each.node.lineno, reverse=True)  # the first of a place is told
        trained = {each.place: each for each in by_line if each.is_trained}
        if not trained:
            return
        for each in walk(node):
            if isinstance(each, ast.Name | ast.Attribute) and type(each.ctx) is ast.Load:
                path = path_of(each)
                if path in trained and not self._is_no_read(each):
                    if trained[path].is_handle and not _is_read_for_values(self.facts, each):
                        continue
                    shared = trained[path]
                    if shared.is_asked and not _is_called(self.facts, each):
                        continue
                    self.found.setdefault(shared.node, (shared, each))

    def _is_no_read(self, node: ast.expr) -> bool:
        """Whether a name is only asked whether it is `None`, or is given other values."""
        above = self.facts.parent(node)
        if isinstance(above, ast.Attribute) and above.attr == "load_state_dict":
            return True
        return isinstance(above, ast.Compare) and isinstance(above.ops[0], ast.Is | ast.IsNot)

    def _trained(self, call: ast.Call, facts: frozenset[Shared]) -> frozenset[Shared]:
        replaced = {*replaced_by(self.facts, call)} if facts else set()
        facts = frozenset(each for each in facts if each.module not in replaced)
        modules = {each.module for each in facts if not each.is_trained}
        written = written_module(self.facts, call)
        trained = {
            module
            for module in modules
            if updates(self.facts, call, module) or (written is not None and module == written)
        }
        if called_name(call) == "load_state_dict" and isinstance(call.func, ast.Attribute):
            restored = path_of(call.func.value)
            facts = frozenset(
                each for each in facts if restored not in (each.place, each.module if each.is_name else "")
            )
            trained |= modules & {module_path(call.func.value) or ""}
        if not trained:
            return facts
        return frozenset(
            dataclasses.replace(each, is_trained=True) if each.module in trained else each for each in facts
        )


def _is_called(facts: FileFacts, node: ast.expr) -> bool:
    """Whether a module is called: `old_net(x)`, `old_net.forward(x)`."""
    above = facts.parent(node)
    if isinstance(above, ast.Attribute) and above.attr == "forward":
        return True
    return isinstance(above, ast.Call) and above.func is node


def _is_read_for_values(facts: FileFacts, node: ast.expr) -> bool:
    """Whether a list of parameters is read beside others, or by name, for a difference, a test or a copy."""
    above: ast.AST | None = facts.parent(node)
    while isinstance(above, ast.Call) and called_name(above) in ("list", "enumerate", "values", "items"):
        above = facts.parent(above)
    if isinstance(above, ast.Attribute):  # `before.items()`
        call = facts.parent(above)
        above = facts.parent(call) if call is not None else None
    is_beside = isinstance(above, ast.Call) and called_name(above) in ("zip", "load_state_dict", *_COPIES)
    if not (is_beside or isinstance(above, ast.Subscript)):
        return False
    at = facts.statement_of(node)
    around: ast.AST | None = at if at is not None else node
    return around is not None and any(_meets(each) for each in walk(around))


def _meets(node: ast.AST) -> bool:
    """Whether an expression reads values: a difference, a comparison other than by identity, a copy."""
    match node:
        case ast.BinOp(op=ast.Sub() | ast.Add() | ast.Mult()):
            return True
        case ast.Compare(ops=[ast.Eq() | ast.NotEq()]):
            return not any(
                isinstance(each, ast.Call) and called_name(each) in _TELL_NO_VALUE for each in walk(node)
            )
        case ast.Call():
            return called_name(node) in (
                *_COPIES,
                "equal",
                "allclose",
                "load_state_dict",
                "mse_loss",
                "dist",
                "norm",
            )
        case ast.Assign(targets=[ast.Attribute(attr="data")]):
            return True
    return False


def _is_head(loop: ast.AST | None, node: ast.AST) -> TypeGuard[ast.For]:
    """Whether a node is what a loop goes through."""
    return isinstance(loop, ast.For) and loop.iter is node


def last_name(place: str) -> str:
    """What a place is called, by its last part: `net` of `self.nets.net[0]`."""
    return place.rpartition(".")[2].partition("[")[0].lower()


def kept_places(at: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    """The places that a statement binds, each with its value: of `best, best_net = accuracy, net` both."""
    yield from ((place, value) for target, value in assigned(at) if (place := path_of(target)) is not None)


def shared_by(facts: FileFacts, place: str, value: ast.expr) -> Shared | None:
    """What an assignment keeps: a shallow copy, or what its name says to be kept for later."""
    name = last_name(place)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute | ast.Name) and len(value.args) == 1:
        module = path_of(value.args[0])
        if (
            module is not None
            and facts.resolve(value.func) == "copy.copy"
            and is_module(facts, value.args[0], module)
        ):
            return Shared(place, module, value, f"another module around the parameters of `{module}`")
    if _KEPT_MODULE.search(name) and (module := path_of(value)) is not None:
        is_default = not any(isinstance(each, ast.If | ast.For | ast.While) for each in facts.above(value))
        if is_default and "best" in name:
            return None  # until a better one is found
        if not _KEPT_MODULE.search(last_name(module)) and is_module(facts, value, module):
            return Shared(place, module, value, f"a second name of `{module}`", is_name=True)
        return None
    older = path_of(value)
    if older is not None and _OLDER_MODULE.search(last_name(older)) and not _OLDER_MODULE.search(name):
        if is_module(facts, value, older) and place in facts.optimized:  # `net = old_net`, trained as `net`
            return Shared(older, place, value, f"a second name of `{place}`", is_name=True, is_asked=True)
        return None
    if not NAMES_OF_SNAPSHOTS.search(name):
        return None
    owner = _listed_parameters(value)
    if owner is None or NAMES_OF_SNAPSHOTS.search(last_name(owner)):
        return None  # what is kept is the other module
    inside = [each.attr for each in ast.walk(value) if isinstance(each, ast.Attribute)]
    is_handle = not {"data", "detach"} & {*inside}
    return Shared(place, owner, value, f"the parameters of `{owner}` themselves", is_handle=is_handle)


def _listed_parameters(node: ast.expr) -> str | None:
    """The module of `list(m.parameters())`, `[p.data for p in m.parameters()]`, `dict(m.named_parameters())`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _LISTS and node.args:
        return module_of_parameters(node.args[0])
    if isinstance(node, ast.ListComp | ast.DictComp) and len(node.generators) == 1:
        loop = node.generators[0]
        value, _ = strip_calls(node.elt if isinstance(node, ast.ListComp) else node.value, "data", "detach", "view")
        names = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
        last = names[-1] if names else None
        if isinstance(value, ast.Name) and isinstance(last, ast.Name) and last.id == value.id:
            return module_of_parameters(loop.iter)
    return None
