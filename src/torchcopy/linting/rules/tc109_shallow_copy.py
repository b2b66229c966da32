"""TC109: a second name, a shallow copy or a list of parameters, kept as if it had values of its own.

Each is followed to where the module is trained and what was kept is read; a name says that it was to be kept.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from typing import TypeGuard

from ..findings import Edit, Finding, Fix
from ..inference.file_facts import FileFacts
from ..inference.flow import Flow
from ..inference.nodes import called_name, path_of, strip_calls, walk
from ..inference.scopes import Scope
from ..inference.weights.averages import shared_averages
from ..inference.weights.effects import replaced_by
from ..inference.weights.entrywise_states import NAMES_OF_SNAPSHOTS
from ..inference.weights.models_of_rounds import models_of_rounds
from ..inference.weights.module_paths import given_other_tensors, module_of_parameters, module_path
from ..inference.weights.parameter_writes import written_module
from ..inference.weights.things import is_module
from ..inference.weights.training import is_given_back, updates

CODE = "TC109"
NEEDS = (
    "copy.copy(",
    "target",
    "teacher",
    "best_",
    *(f"= {own}{word}_" for own in ("", "self.") for word in ("old", "prev", "previous", "past", "frozen")),
    "parameters(",
    ".append(model",
    ".append(net",
    "] = model",
    "] = net",
)

_KEPT_MODULE = re.compile(r"(^|_)(best|old|prev|previous|initial|backup|snapshot)(_|$)")
_OLDER_MODULE = re.compile(
    r"(^|_)(old|prev|previous|past|former|backup|snapshot|teacher|frozen|ref|reference)(_|$)"
)
_TARGET = re.compile(r"(^|_)target(_|$)|^target|_target$|_tgt$")
_SHARED_WITH = re.compile(r"source|src")  # an encoder for both
_TEACHER, _STUDENT = re.compile(r"teacher"), re.compile(r"student")
_SIGNS_OF_TRAINING = ("optimizer", ".step(", ".backward(", "load_state_dict(")
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
    """

    place: str
    module: str
    node: ast.expr
    what: str
    is_trained: bool = False
    is_handle: bool = False
    is_name: bool = False


class _SharedParameters(Flow[Shared]):
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
        targets = node.targets if isinstance(node, ast.Assign) else []
        written = [one for each in walk(at) if isinstance(each, ast.Assign) for one in each.targets]
        rewritten = {path_of(each.value) for each in written if isinstance(each, ast.Subscript)}
        facts = frozenset(one for one in facts if one.place not in rewritten)  # `saved[i] = saved[i].clone()`
        for each in walk(node):
            if isinstance(each, ast.Name | ast.Attribute) and type(each.ctx) is ast.Store:
                path = path_of(each)
                if not (isinstance(node, ast.Assign) and is_given_back(self.facts, each, node.value)):
                    facts = frozenset(one for one in facts if path not in (one.place, one.module))
        for target in targets:
            place = path_of(target)
            if place is not None and isinstance(node, ast.Assign):
                made = _shared(self.facts, place, node.value)
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


def _last_name(place: str) -> str:
    return place.rpartition(".")[2].partition("[")[0].lower()


def _shared(facts: FileFacts, place: str, value: ast.expr) -> Shared | None:
    """What an assignment keeps: a shallow copy, or what its name says to be kept for later."""
    name = _last_name(place)
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
        if not _KEPT_MODULE.search(_last_name(module)) and is_module(facts, value, module):
            return Shared(place, module, value, f"a second name of `{module}`", is_name=True)
        return None
    older = path_of(value)
    if older is not None and _OLDER_MODULE.search(_last_name(older)) and not _OLDER_MODULE.search(name):
        if is_module(facts, value, older) and _gives_parameters(
            facts, place
        ):  # `net = old_net`, then trained as `net`
            return Shared(older, place, value, f"a second name of `{place}`", is_name=True)
        return None
    if not NAMES_OF_SNAPSHOTS.search(name):
        return None
    owner = _listed_parameters(value)
    if owner is None or NAMES_OF_SNAPSHOTS.search(_last_name(owner)):
        return None  # what is kept is the other module
    inside = [each.attr for each in ast.walk(value) if isinstance(each, ast.Attribute)]
    is_handle = not {"data", "detach"} & {*inside}
    return Shared(place, owner, value, f"the parameters of `{owner}` themselves", is_handle=is_handle)


def _gives_parameters(facts: FileFacts, place: str) -> bool:
    """Whether the parameters of a place are asked for in the file, as an optimizer needs them."""
    return any(module_of_parameters(each) == place for each in facts.calls_by_name.get("parameters", ()))


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


def check(facts: FileFacts) -> Iterator[Finding]:
    """Shallow copies, second names and lists of modules or their parameters, that were to keep values."""
    text = facts.source.text
    told: set[ast.AST] = set()
    for scope in facts.functions:
        if scope.body and any(_may_share(facts, node) for node in scope.nodes(ast.Assign)):
            flow = _SharedParameters(facts, scope)
            flow.run(scope.body)
            for shared, read in flow.found.values():
                line = getattr(read, "lineno", 0)
                told |= {*ast.walk(shared.node)}
                yield facts.source.finding(
                    CODE,
                    f"`{shared.place}` is {shared.what}: after the training its values in line {line} are the new "
                    "ones; keep a copy",
                    shared.node,
                    also=[("read here", line)],
                )
        yield from _kept_in_rounds(facts, scope)
    if "copy.copy(" in text:
        yield from _shallow_modules(facts)
    if "parameters(" in text:
        yield from _averages(facts, told)
    if ("target" in text or "teacher" in text) and any(word in text for word in _SIGNS_OF_TRAINING):
        yield from _targets(facts)


def _kept_in_rounds(facts: FileFacts, scope: Scope) -> Iterator[Finding]:
    """`models.append(model)` in each epoch, and behind the loop `models[best]`."""
    for each in models_of_rounds(facts, scope):
        yield facts.source.finding(
            CODE,
            f"`{each.place}` keeps `{each.module}` itself, round by round: all are the one that is trained; keep "
            f"`copy.deepcopy({each.module})`",
            each.node,
            also=[("read here", each.read.lineno)],
        )


def _averages(facts: FileFacts, told: set[ast.AST]) -> Iterator[Finding]:
    """`self.shadow = {n: p.data for n, p in model.named_parameters()}`, then `self.shadow[n].mul_(decay)`."""
    for each in shared_averages(facts):
        if each.node in told:
            continue
        line = each.written.lineno
        where = ", unless that is on another device or of another type" if each.is_moved else ""
        yield facts.source.finding(
            CODE,
            f"`{each.place}` holds the parameters of `{each.module}` themselves{where}: the average of line {line} "
            "is written into them; begin with `.clone()` of each",
            each.node,
            fix=_begun_with_copies(facts, each.node),
            also=[("written here", line)],
        )


def _begun_with_copies(facts: FileFacts, tensor: ast.expr) -> Fix:
    """`.clone()` behind the tensor that is kept, a name with attributes and calls."""
    end = facts.source.end(tensor)
    return Fix((Edit(end, end, ".clone()"),), safe=False, note="the average no longer writes into the parameters")


def _may_share(facts: FileFacts, node: ast.Assign) -> bool:
    place = path_of(node.targets[0])
    return place is not None and _shared(facts, place, node.value) is not None


def _shallow_modules(facts: FileFacts) -> Iterator[Finding]:
    """`self.target = copy.copy(model)`: the same parameters, whichever method trains them."""
    if not any(word in facts.source.text for word in _SIGNS_OF_TRAINING):
        return
    for scope in facts.functions:
        for call in scope.nodes(ast.Call):
            if facts.resolve(call.func) != "copy.copy" or len(call.args) != 1:
                continue
            module = path_of(call.args[0])
            above = facts.parent(call)
            if module is None or not isinstance(above, ast.Assign) or not is_module(facts, call.args[0], module):
                continue
            place = path_of(above.targets[0])
            if place is None or "." not in place or _gets_own_parameters(scope, place):
                continue
            yield facts.source.finding(
                CODE,
                f"`copy.copy` makes a second module around the parameters of `{module}`: both are trained; "
                f"`copy.deepcopy({module})` has its own",
                call,
            )


def _gets_own_parameters(scope: Scope, place: str) -> bool:
    """Whether parameters, or the tables of them, are put into the copy."""
    for node in scope.nodes(ast.Attribute):
        if node.attr in ("_parameters", "_modules", "_buffers", "__dict__") and path_of(node.value) == place:
            return True
    return any(
        type(node.ctx) is ast.Store and path_of(node.value) == place for node in scope.nodes(ast.Attribute)
    ) or any(
        called_name(call) in ("setattr", "__setattr__", "register_parameter") and place in map(path_of, call.args)
        for call in scope.nodes(ast.Call)
    )


def _targets(facts: FileFacts) -> Iterator[Finding]:
    """`self.target_net = self.q_net`: the target network is the network that is trained."""
    for scope in facts.functions:
        for node in scope.nodes(ast.Assign):
            value = strip_calls(node.value, "eval")[0]
            place, module = path_of(node.targets[0]), path_of(value)
            if place is None or module is None:
                continue
            is_teacher = (
                _TEACHER.search(_last_name(place)) is not None and _STUDENT.search(_last_name(module)) is not None
            )
            if not (_TARGET.search(_last_name(place)) or is_teacher):
                continue
            if _is_made_anew(facts, scope, node, module) or _SHARED_WITH.search(_last_name(module)):
                continue
            if _TARGET.search(_last_name(module)) or not _is_network_name(_last_name(place)):
                continue
            if facts.kind_of(value).name != "module":
                continue
            bound = facts.bindings_of_path(scope, place)
            others = [each for each in bound if not _is_none(each.value)]
            if len(others) == 1 and _is_synchronised(facts, place):
                yield facts.source.finding(
                    CODE,
                    f"`{place}` is a second name of `{module}` and is trained with it; "
                    f"a {'teacher' if is_teacher else 'target network'} is a copy: `copy.deepcopy({module})`",
                    node.value,
                )


def _is_made_anew(facts: FileFacts, scope: Scope, node: ast.Assign, module: str) -> bool:
    """Whether the module is made anew, next or in each round of a loop: its second name is of an older one."""
    around, bound = {*facts.loops(node)}, facts.bindings_of_path(scope, module)
    is_next = any(facts.scope_of(each.node) is scope and each.node.lineno > node.lineno for each in bound)  # type: ignore[attr-defined]
    return is_next or any(around & {*facts.loops(each.node)} for each in bound)


def _is_network_name(name: str) -> bool:
    return bool(re.search(r"net|model|critic|actor|policy|_q|q_|encoder|value|teacher", name)) or name == "target"


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_synchronised(facts: FileFacts, place: str) -> bool:
    """Whether the target is evaluated, or at times given the values of the other: it is meant to be behind."""
    for scope in facts.functions:
        for call in scope.nodes(ast.Call):
            if path_of(call.func) == place:
                return True
            if called_name(call) == "load_state_dict" and path_of(getattr(call.func, "value", None)) == place:
                return True
    return False
