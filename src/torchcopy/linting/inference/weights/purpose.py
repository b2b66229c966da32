"""Which live states do no harm: a copy follows, or they are replaced; and which a loop resets its module to."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ..nodes import arguments, called_name, method_call, names_in, path_of, root_name, strip_calls, walk
from ..scopes import Binding, Scope
from .keepers import CONTAINERS
from .kept import Kept
from .module_paths import module_path
from .places import is_in
from .training import is_given_back

if TYPE_CHECKING:
    from ..file_facts import FileFacts

OF_BEFORE = re.compile(
    r"best|init|orig|prev|old|before|back_?up|(^|[._])back(_|$)|snap|start|first|pre_|lowest|(^|[._])opt(imal)?(_|$)"
)
_EARLIER = re.compile(rf"{OF_BEFORE.pattern}|saved|kept|last|ckpt|checkpoint")
_OF_ANOTHER = re.compile(r"_(target|eval|test|ema|swa|copy|local|global)$")
_WRAPPED = re.compile(
    r"^(base|ddp|dp|fsdp|unwrapped|raw|inner|wrapped|parallel|orig|original|last|prev|old|best|init|the|my|_)_"
)
_DROPS = ("pop", "popleft", "clear")
_INFINITE = re.compile(
    r"""^[-+]?((float|torch\.tensor)\()*['"]?[-+]?(\w+\.)?(inf(inity|ty)?|pinf|ninf|maxsize|float_info\.max)['"]?\)*$""",
    re.IGNORECASE,
)
_READS_ONLY = re.compile(
    r"eval|valid|test|predict|score|print|log|save|load|len|getattr|hasattr|isinstance|append|str|repr|id|deepcopy|copy"
)


def goes_into_another(kept: Kept, place: str, module: str) -> bool:
    """Whether a state goes into a module of another name, and by its own name is not one of an earlier time."""
    one, other = (re.sub(r"\[.*?\]|\(\)", "", each).rpartition(".")[2].lower() for each in (kept.module, module))
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    is_prefixed = longer.endswith(f"_{shorter}") and not _WRAPPED.search(longer)  # `net`, `eval_net`
    is_another = is_prefixed or (_OF_ANOTHER.search(one) is None) != (_OF_ANOTHER.search(other) is None)
    return not (((one in other or other in one) and not is_another) or _EARLIER.search(place.lower()))


def is_copied_next(facts: FileFacts, targets: list[ast.expr]) -> bool:
    """Whether the next statement makes a copy of what is bound: `best = copy.deepcopy(best)`."""
    path, at = path_of(targets[0]), facts.statement_of(targets[0])
    above = facts.parent(at) if at is not None else None
    for block in (getattr(above, field, None) for field in ("body", "orelse", "finalbody")):
        if isinstance(block, list) and at in block[:-1]:
            match block[block.index(at) + 1]:
                case ast.Assign(targets=[target], value=ast.Call(args=[given]) as call):
                    is_same = path is not None and path_of(target) == path_of(given) == path
                    return is_same and called_name(call) == "deepcopy"
    return False


def is_only_filled(facts: FileFacts, scope: Scope, name: str) -> bool:
    """Whether a list of a function is never read: entries are put in and dropped, and nothing else is done."""
    bound = scope.bindings.get(name, ())
    if not bound or any(each.how == "parameter" for each in bound) or scope.has(ast.Global, ast.Nonlocal):
        return False  # an attribute, or a list of the caller
    named = (each for one in facts.scopes for each in one.nodes(ast.Name) if each.id == name)
    return all(type(each.ctx) is not ast.Load or _only_fills(facts, each) for each in named)


def is_rewritten(scope: Scope, place: str) -> bool:
    """Whether something else than parameters is put into the entries of a dict: averages of them, say."""
    name = place.partition(".")[2] if scope.owns(place) else place
    methods = scope.owner.inner if scope.owns(place) and scope.owner is not None else [scope]
    for each in methods:
        base = f"{each.self_name}.{name}" if scope.owns(place) else place
        for target in each.nodes(ast.Subscript):
            if type(target.ctx) is not ast.Store or path_of(target.value) != base:
                continue
            value = each.binding(target).value
            inner = strip_calls(value, "data", "detach")[0] if value is not None else None
            bound = each.bindings.get(inner.id, []) if isinstance(inner, ast.Name) else []
            if not bound or any(one.how != "element" for one in bound):
                return True
    return False


def _only_fills(facts: FileFacts, name: ast.Name) -> bool:
    above = facts.parent(name)
    if isinstance(above, ast.Subscript):
        return type(above.ctx) is not ast.Load
    if not isinstance(above, ast.Attribute):
        return False
    call = facts.parent(above)
    is_dropped = above.attr in _DROPS and call is not None and isinstance(facts.parent(call), ast.Expr)
    return is_dropped or above.attr in CONTAINERS


def is_replaced(facts: FileFacts, scope: Scope, place: str, first: ast.AST) -> bool:
    """Whether the first round of a loop always keeps another state there: `if best_loss is None or …`.

    The loop is one behind the node that keeps the `first` one, or in the same round of a loop around both.
    """
    around = facts.loops(first)
    if place.endswith("[*]"):
        around = around[1:]  # what one loop lists
    for node in _stores(facts, scope, place):
        at = facts.statement_of(node)
        above = facts.parent(at or node)
        if isinstance(above, ast.For) and place.endswith("[*]"):  # each entry of a list of them
            at, above = above, facts.parent(above)
        if not isinstance(above, ast.If):
            continue
        loops = facts.loops(above)
        if len(loops) <= len(around) or loops[len(loops) - len(around) :] != around:
            continue
        if at in above.body and any(_is_first(facts, one) for one in _ways(above.test)):
            return True
        if at in above.orelse and _is_first(facts, above.test, is_otherwise=True):
            return True
    return False


def _stores(facts: FileFacts, scope: Scope, place: str) -> list[ast.AST]:
    """Where something is bound to a place, or to the entries of a list."""
    bound = [each.node for each in facts.bindings_of_path(scope, place)]
    if not place.endswith("[*]"):
        return bound
    stored = [each for each in scope.nodes(ast.Subscript) if type(each.ctx) is ast.Store]
    return bound + [each for each in stored if path_of(each.value) == place[:-3] and _is_of_each(facts, each)]


def _is_of_each(facts: FileFacts, stored: ast.Subscript) -> bool:
    """Whether a loop stores entry by entry: `best[i] = …` in a loop over `i`."""
    loop = facts.parent(facts.statement_of(stored) or stored)
    key = stored.slice
    return (
        isinstance(loop, ast.For)
        and isinstance(key, ast.Name)
        and key.id in {each.id for each in names_in(loop.target)}
    )


def _ways(test: ast.expr) -> list[ast.expr]:
    """The tests of which one is enough; the last one of `phase == "val" and loss < lowest`, sooner or later."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            return values
        case ast.BoolOp(op=ast.And(), values=values):
            others = [each for each in values if not _is_equality(each)]
            return others if len(others) == 1 else []
    return [test]


def _is_equality(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)


def _is_infinite_at_first(facts: FileFacts, node: ast.expr) -> bool:
    """Whether what a name was bound to before the loop it is read in is `float("inf")`, `-np.inf` or the like."""
    bound = facts.bindings(node) if isinstance(node, ast.Name) else []
    loop = next(iter(facts.loops(node)), None)
    before = [
        each for each in bound if loop not in facts.loops(each.node) and (loop is None or _line(each) < loop.lineno)
    ]
    return bool(before) and _is_infinite(max(before, key=_line).value)


def _line(bound: Binding) -> int:
    return getattr(bound.node, "lineno", 0)


def _is_infinite(value: ast.expr | None) -> bool:
    return value is not None and _INFINITE.search(ast.unparse(value)) is not None


def _is_none_or_infinite(value: ast.expr | None) -> bool:
    return _is_infinite(value) or (isinstance(value, ast.Constant) and value.value is None)


def is_reset_in_loop(facts: FileFacts, kept: Kept, place: str, call: ast.AST, module: str) -> bool:
    """Whether each round of a loop loads into a module what was kept before, and gives the module away."""
    loop = next(iter(facts.loops(call)), None)
    if loop is None or kept.module != module or kept.optimizer:
        return False
    if loop in facts.loops(kept.call) or _is_bound_in(facts, loop, module):
        return False
    if any(isinstance(each, ast.Subscript) and path_of(each.value) == place for each in walk(loop)):
        return False  # entries are read or written: on purpose
    if any(isinstance(each, ast.Yield) and _is_one_of(module, each.value) for each in walk(loop)):
        return True
    others = [each for each in walk(loop) if isinstance(each, ast.Call) and each is not call]
    if any(_writes_a_weight(each) for each in others):
        return True
    given = [one for each in others if not _READS_ONLY.search(called_name(each)) for one in arguments(each)]
    if any(_is_parameter_of(facts, each, module) for each in given):
        return True
    return any((path := path_of(each)) is not None and is_in(module, path) for each in given)


def _is_one_of(place: str, given: ast.expr | None) -> bool:
    """Whether what is given away is a place, or a tuple with it."""
    return place in map(path_of, given.elts if isinstance(given, ast.Tuple) else [given])


def _is_parameter_of(facts: FileFacts, node: ast.expr, module: str) -> bool:
    """Whether an expression is a parameter of a module, or shares its memory: `param.detach()`, `p.data`."""
    inner, _ = strip_calls(node, "data", "detach")
    if not isinstance(inner, ast.Name) or inner is node:
        return False
    loops = (each for each in facts.loops(inner) if isinstance(each, ast.For))
    around = next((each for each in loops if any(one.id == inner.id for one in names_in(each.target))), None)
    iterated: ast.expr | None = around.iter if around is not None else None
    if isinstance(iterated, ast.Call) and called_name(iterated) in ("enumerate", "tqdm", "list") and iterated.args:
        iterated = iterated.args[0]
    if isinstance(iterated, ast.Name):  # `weights = [(n, p) for n, p in model.named_parameters()]`
        bound = facts.bindings(iterated)
        iterated = bound[0].value if len(bound) == 1 else None
    return iterated is not None and any(
        module_path(method_call(each, "parameters", "named_parameters")) == module for each in walk(iterated)
    )


def _writes_a_weight(call: ast.Call) -> bool:
    """Whether a call is an in-place method of a weight: `layer.weight.mul_(…)`."""
    path = path_of(call.func) or ""
    return re.search(r"\.(weight|bias)(\.data)?\.\w+[^_]_$", path) is not None


def _is_bound_in(facts: FileFacts, loop: ast.AST, place: str) -> bool:
    """Whether a loop binds a place, or the name that it begins with, to something else than itself."""
    root = root_name(place)
    stored = (each for each in walk(loop) if isinstance(each, ast.Name | ast.Attribute))
    for each in stored:
        if type(each.ctx) is ast.Store and path_of(each) in (root, place):
            at = facts.statement_of(each)
            if not isinstance(at, ast.Assign) or not is_given_back(facts, each, at.value):
                return True
    return False


def is_replaced_later(facts: FileFacts, keeper: Scope, attribute: str) -> bool:
    """Whether a method keeps another state in an attribute in its first call: the best one begins as infinite."""
    owner = keeper.owner
    if owner is None:
        return False
    for each in facts.class_attributes(owner).get(attribute, []):
        above = facts.parent(facts.statement_of(each.node) or each.node)
        if facts.scope_of(each.node) is keeper or not isinstance(above, ast.If):
            continue
        if any(_is_first_of_object(facts, owner, one) for one in _ways(above.test)):
            return True
    return False


def _is_first_of_object(facts: FileFacts, owner: Scope, test: ast.expr) -> bool:
    """Whether a test holds in the first call: `loss < self.lowest`, or `self.is_better(loss, self.lowest)`."""
    if isinstance(test, ast.Call):
        return re.search(r"better|improve", called_name(test)) is not None
    sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) else []
    for side in sides:
        bound = facts.class_attributes(owner).get(side.attr, []) if isinstance(side, ast.Attribute) else []
        first = [each.value for each in bound if facts.scope_of(each.node).name == "__init__"]
        if any(_is_none_or_infinite(each) for each in first):
            return True
    return False


def _is_first(facts: FileFacts, test: ast.expr, *, is_otherwise: bool = False) -> bool:
    """Whether a test holds in the first round: `lowest is None`, where `lowest = None` stands before the loop.

    So does `loss < lowest`, where that is infinite; `is_otherwise` asks whether a test does not hold then.
    """
    match test:
        case (
            ast.Compare(left=left, ops=[ast.Lt() | ast.LtE()], comparators=[right])
            | ast.Compare(left=right, ops=[ast.Gt() | ast.GtE()], comparators=[left])
        ):
            is_infinite = [_is_infinite_at_first(facts, each) for each in (left, right)]
            is_lowest = [_is_negative_at_first(facts, each) for each in (left, right)]
            fails = (is_infinite[0] and not is_lowest[0]) or (is_infinite[1] and is_lowest[1])
            return fails if is_otherwise else any(is_infinite) and not fails
        case ast.Compare(left=ast.Name() as name, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            values = [each.value for each in facts.bindings(name) if not facts.loops(each.node)]
            return not is_otherwise and any(
                isinstance(each, ast.Constant) and each.value is None for each in values
            )
    return False


def _is_negative_at_first(facts: FileFacts, node: ast.expr) -> bool:
    """Whether the infinite value that a name begins with is the lowest one."""
    values = [each.value for each in facts.bindings(node)] if isinstance(node, ast.Name) else []
    written = ast.unparse(values[0]).lower() if values and values[0] is not None else ""
    return "-" in written or "ninf" in written
