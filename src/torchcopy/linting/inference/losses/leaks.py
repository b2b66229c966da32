"""Which of the losses that a function keeps outlive their round, each with the graph that hangs on it."""

from __future__ import annotations

import ast
import dataclasses
import re
from typing import TYPE_CHECKING

from ..nodes import Loop, called_name, gone_through, keyword, method_call, names_in, path_of, root_name
from ..scopes import Scope
from ..summaries import is_optimizer_step
from ..values.elements import container_of
from ..values.kinds import UNKNOWN
from .hot_losses import Taken, is_detached, is_list_of_tensors, needed_values, takers
from .loss_flow import Losses, losses_of
from .loss_places import branches, place_of
from .loss_sources import BACKWARDS, differentiated_attributes
from .loss_terms import detaches, shown
from .loss_values import ANY, LOSS_LIKE, Given, KeptValue, Value

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_DEEPEST = 3  # calls of calls
_FEW = 20  # graphs that are kept at a time
_NUMBERS = {"int", "float", "bool", "Number", "floating", "ndarray"}
_LOADERS = re.compile(r"loader|dataset|batches$|(^|_)(dl|train_data|trainset|data_iter|train_iter)$")
_ROUNDS = re.compile(r"^t?range\(|\b(data|batch(es)?|samples|iterator|train\w*)\b|\.(split|chunk|batch\w*)\(")
_FUNCTIONS = re.compile(r"loss|crit|func|(^|_)(fn|f)$")  # what a loop tries, one after the other
_PARTS = ("model", "net", "optimizer", "task", "task_name", "domain", "modality", "device")
_READS = ("len", "print", "plot", "save", "dump", "str", "repr", "enumerate")


def is_leak(facts: FileFacts, scope: Scope, losses: Losses, kept: KeptValue, *, given: Value | None = None) -> bool:
    """Whether it is kept over rounds, not itself to be differentiated, and not only the last few of them.

    A parameter that is `given` a loss is one, whatever its annotation says.
    """
    if not _keeps_graphs(facts, scope, losses, kept, given=given):
        return False
    root = kept.keeper.partition("[")[0]
    if _is_bounded(facts, losses, root):
        return False
    is_behind = bool(losses.backwards) and not losses.backward_loops and bool(facts.loops(kept.statement))
    if is_behind and kept.values & needed_values(losses) and not scope.owns(root):
        return False  # the graphs of all rounds are wanted until they are differentiated, behind the loop
    sources = [each.source.func for each in kept.values if isinstance(each.source, ast.Call)]
    differentiating = frozenset() if any(map(facts.definition, sources)) else frozenset(losses.backward_loops)
    return repeats(facts, scope, kept, differentiating)


def _keeps_graphs(
    facts: FileFacts,
    scope: Scope,
    losses: Losses,
    kept: KeptValue,
    *,
    given: Value | None = None,
    is_slot_known: bool = False,
) -> bool:
    """Whether what is kept has its graph, and is not itself to be differentiated, for however long it is kept.

    Of a slot of something that is given, the caller may know what it is: whether it is an array.
    """
    root = kept.keeper.partition("[")[0]
    if any(place == root or place.startswith((f"{root}[", f"{root}.")) for place in losses.backward_places):
        return False
    if root in differentiated_attributes(facts, scope):
        return False
    if any(each.place.partition("[")[0] == root for each in needed_values(losses)):
        return False  # what it adds up is differentiated
    begins = {part for each in kept.values for part in losses.derived.get(each, ())}  # the 0 of `total = 0`
    if any(is_detached(losses, each, derived=True) for each in kept.values - begins):
        return False  # on one of the ways
    if any(_was_detached(losses, each) for each in kept.values):
        return False
    if kept.is_sum and facts.is_without_graph(kept.statement):
        return False
    is_given = given is not None and path_of(kept.node) == given.place
    kind = facts.kind_of(kept.node) if not is_given else UNKNOWN
    is_given_back = any(isinstance(each.source, ast.Call) for each in kept.values)  # a tuple with a loss in it
    is_list = kind.name == "list" and not any(is_list_of_tensors(losses, each) for each in kept.values)
    if kind.name in ("number", "ndarray", "text") or (is_list and not is_given_back):
        return False
    if kind.is_tensor and kind.graph is False:
        return False
    if kept.is_sum and "['" not in kept.keeper and _is_taken_out(scope, root):
        return False
    if _is_told_a_number(facts, kept) or _is_detached_there(facts, scope, kept):
        return False
    if not is_slot_known and _is_put_in_array(facts, kept.statement):
        return False
    if _is_another_way(facts, losses, kept.statement):
        return False
    if losses.is_for_caller and _is_used_up(facts, scope, root):
        return False
    return not _is_in_evaluation(facts, kept.statement)


def is_leak_of_comprehension(facts: FileFacts, scope: Scope, node: ast.ListComp | ast.GeneratorExp) -> bool:
    """Whether a comprehension goes through the rounds of a training, and is not itself differentiated."""
    loop = node.generators[0]
    bound = facts.bindings(loop.iter) if isinstance(loop.iter, ast.Name) else []
    through = [loop.iter, *(each.value for each in bound if each.value is not None)]  # `parts = x.split(64)`
    is_of_rounds = any(_ROUNDS.search(ast.unparse(each)) for each in through)
    if len(node.generators) > 1 or not (_is_over_batches(loop) or is_of_rounds):
        return False
    if facts.is_without_graph(node) or _is_over_models(loop) or "micro" in ast.unparse(loop.iter):
        return False
    at = facts.statement_of(node)
    places = {path_of(each) for each in at.targets} if isinstance(at, ast.Assign) else set()
    return not places or not places & losses_of(facts, scope).backward_places


@dataclasses.dataclass(frozen=True, slots=True)
class Keeper:
    """Where a function of the project keeps what it is given.

    Attributes:
        facts: of its file.
        statement: what keeps it.
        bucket: the parameter that it puts it into, if it is no attribute or list of its own.
        is_slot: it writes to an entry of that, which may be an array.
    """

    facts: FileFacts
    statement: ast.AST
    bucket: str = ""
    is_slot: bool = False


def kept_by_call(facts: FileFacts, given: Given, depth: int = 0) -> tuple[Taken, Keeper] | None:
    """Which function of the project that is given a loss keeps it, or a sum of them, for longer, and where."""
    if depth >= _DEEPEST or facts.is_without_graph(given.call):
        return None
    for taken in takers(facts, given.call, given.argument):
        losses = losses_of(taken.facts, taken.scope)
        known, key = losses.keeps, (taken.value, depth)
        if key not in known:
            known[key] = _keeps(taken, losses, depth)
        keeper = known[key]
        if keeper is not None:
            return taken, keeper
    return None


def _keeps(taken: Taken, losses: Losses, depth: int) -> Keeper | None:
    """Where a function keeps a parameter: in an attribute, a list of its file, what it is given, or by a call."""
    facts, scope, owns = taken.facts, taken.scope, taken.scope.owns
    for each in losses.kept.values():
        if taken.value not in each.values or _is_an_option(facts, each.statement):
            continue
        root = root_name(each.keeper)
        if owns(_behind(scope, each.keeper)) or is_of_outside(facts, scope, root):
            if is_leak(facts, scope, losses, each, given=taken.value):
                return Keeper(facts, each.statement)
        elif root != taken.value.place and [one.how for one in scope.bindings.get(root, ())] == ["parameter"]:
            if _is_emptied(scope, root, each):
                continue
            is_entry = each.keeper != root or not each.is_sum  # a number that is added to stays what it was
            is_slot = not isinstance(each.statement, ast.Call)
            if is_entry and _keeps_graphs(facts, scope, losses, each, given=taken.value, is_slot_known=is_slot):
                return Keeper(facts, each.statement, root, is_slot)
    for given in losses.given.values():
        if taken.value in given.values and owns(path_of(given.call.func) or ""):
            found = kept_by_call(facts, given, depth + 1)
            if found is not None and not found[1].bucket:
                return found[1]
    return None


def _is_emptied(scope: Scope, name: str, kept: KeptValue) -> bool:
    """Whether a function also empties or cuts what it is given to keep losses in, or changes what it has put in."""
    calls = (method_call(each, "clear", "pop", "popleft", "popitem") for each in scope.nodes(ast.Call))
    if _is_cut(scope, name) or any(path_of(each) == name for each in calls):
        return True
    own = getattr(kept.statement, "targets", ())
    return not kept.is_sum and any(
        type(each.ctx) is ast.Store and path_of(each.value) == name and each not in own
        for each in scope.nodes(ast.Subscript)
    )


def _is_an_option(facts: FileFacts, node: ast.AST) -> bool:
    """Whether a method does something only where its object was told to: under `if self.show_loss`."""
    scope = facts.scope_of(node)
    for at, is_body in branches(facts, node, None):
        if is_body and isinstance(at.test, ast.Attribute) and at.test.attr != "training":
            return True
        bound = scope.bindings.get(at.test.id, []) if is_body and isinstance(at.test, ast.Name) else []
        if bound and all(each.how == "parameter" for each in bound):
            return True
    return False


def _was_detached(losses: Losses, value: Value) -> bool:
    """Whether a value is, on one of the ways, a detached one that was only moved: `loss = loss.to(device)`."""
    return any(
        before.place == value.place and before.source is not None and detaches(before.source)
        for before in losses.derived.get(value, ())
    )


def _is_another_way(facts: FileFacts, losses: Losses, node: ast.AST) -> bool:
    """Whether a node runs only where no `backward()` did: it is in the other branch of an `if`."""
    taken = branches(facts, node, None)
    if not taken:
        return False
    others = {(at, not is_body) for at, is_body in taken}
    ways = losses.backward_ways
    return bool(ways) and not any(others.isdisjoint(way) for way in ways)


def _is_told_a_number(facts: FileFacts, kept: KeptValue) -> bool:
    """Whether what is kept is a number there, as a test says: under `if isinstance(loss, float)`."""
    place = path_of(kept.node)
    for at, is_body in branches(facts, kept.statement, None):
        test = at.test
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, is_body = test.operand, not is_body
        if not isinstance(test, ast.Call) or not test.args or path_of(test.args[0]) != place:
            continue
        match called_name(test), test.args:
            case "isinstance", [_, kinds]:
                names = {(path_of(each) or "").rpartition(".")[2] for each in shown(kinds)}
                if (is_body and names <= _NUMBERS) or (not is_body and "Tensor" in names):
                    return True
            case "is_tensor" | "hasattr", _ if not is_body:
                return True
    return False


def _is_detached_there(facts: FileFacts, scope: Scope, kept: KeptValue) -> bool:
    """Whether what is kept is detached in each round, right after: `total += loss`, `total = total.detach()`."""
    around = facts.loops(kept.statement)[:1]
    statements: list[ast.Assign | ast.Expr] = [*scope.nodes(ast.Assign), *scope.nodes(ast.Expr)]
    places = {kept.keeper} if kept.is_sum else {f"{kept.keeper}[-1]", place_of(kept.node) or "?"}
    return any(
        _is_detaching(at, place, is_sum=kept.is_sum) and not branches(facts, at, around[0] if around else None)
        for at in statements
        if facts.loops(at)[:1] == around and at.lineno >= getattr(kept.statement, "lineno", 0)
        for place in places
    )


def _is_detaching(at: ast.Assign | ast.Expr, place: str, *, is_sum: bool) -> bool:
    """Whether a place is detached: by `total = total.detach()`, `kept[-1] = kept[-1].item()`, `loss.detach_()`."""
    if isinstance(at, ast.Expr):
        return place_of(method_call(at.value, "detach_")) == place
    target, value = at.targets[0], at.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = [*zip(target.elts, value.elts, strict=True)]
    else:
        pairs = [(target, value)]
    return any(
        (written == place or (written.startswith(f"{place}[") and not is_sum))
        and (is_sum or place.endswith("[-1]"))
        and detaches(given)
        and any(place_of(each) == written for each in ast.walk(given))
        for one, given in pairs
        if (written := place_of(one)) is not None
    )


def _is_taken_out(scope: Scope, name: str) -> bool:
    """Whether what adds up is an entry of something, as `total = meters["loss"]`: an object of whatever class."""
    made = [each.value for each in scope.bindings.get(name, ()) if each.how == "value"]
    return bool(made) and all(isinstance(each, ast.Subscript) for each in made)


def _is_put_in_array(facts: FileFacts, statement: ast.AST) -> bool:
    """Whether a loss is written into an array, or what may be one: `losses[step] = loss` makes a number of it."""
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=of)]) | ast.AugAssign(target=ast.Subscript(value=of)):
            place, scope, kind = path_of(of) or "", facts.scope_of(statement), facts.kind_of(of)
            is_of_another = place.count(".") > int(scope.owns(place))  # may well be an array
            if facts.is_without_graph(statement) and kind.name not in ("dict", "list"):
                return True  # only its number goes into a tensor
            is_given = not kind.is_known and [each.how for each in scope.bindings.get(place, ())] == ["parameter"]
            return is_of_another or is_given or kind.name == "ndarray"
    return False


def _is_used_up(facts: FileFacts, scope: Scope, root: str) -> bool:
    """Whether other methods empty the attribute that keeps losses, or compute with what it holds."""
    name = root.partition(".")[2]
    methods = [each for each in (scope.owner.inner if scope.owner is not None else ()) if each.self_name]
    for method in methods:
        place = f"{method.self_name}.{name}"
        for node in method.nodes(ast.Attribute):
            above = facts.parent(node)
            if path_of(node) != place or (method is scope and isinstance(above, ast.Attribute)):
                continue
            if type(node.ctx) is ast.Store and method.name != "__init__":
                return True
            is_computed = isinstance(above, ast.Call) and called_name(above) not in _READS
            is_emptied = isinstance(above, ast.Attribute) and above.attr in ("clear", "pop", "popleft")
            if is_computed or is_emptied or isinstance(above, ast.For | ast.comprehension | ast.Delete):
                return True
            if isinstance(above, ast.Subscript) and type(above.ctx) is ast.Del:
                return True
    return False


def _is_in_evaluation(facts: FileFacts, node: ast.AST) -> bool:
    """Whether a node runs only where a module is not trained: under `if not self.training`."""
    below = node
    for at in facts.above(node):
        if isinstance(at, ast.If) and below is not at.test:
            match at.test:
                case ast.Attribute(attr="training"):
                    if below in at.orelse:
                        return True
                case ast.UnaryOp(op=ast.Not(), operand=ast.Attribute(attr="training")):
                    if below in at.body:
                        return True
        below = at
    return False


def _is_bounded(facts: FileFacts, losses: Losses, root: str) -> bool:
    """Whether the keeper is a `deque` of the last few, or a list from which the oldest are taken."""
    scope = losses.scope
    bound = scope.bindings.get(root, [])
    if root.startswith(f"{scope.self_name}.") and scope.owner is not None:
        bound = facts.class_attributes(scope.owner).get(root.partition(".")[2], [])
    for each in bound:
        if isinstance(each.value, ast.Call) and called_name(each.value) == "deque":
            longest = each.value.args[1] if len(each.value.args) > 1 else keyword(each.value, "maxlen")
            return _is_short(longest)
        if isinstance(each.value, ast.Subscript) and path_of(each.value.value) == root:
            match each.value.slice:
                case ast.Slice(lower=ast.UnaryOp(op=ast.USub(), operand=longest)):  # `losses = losses[-20:]`
                    return _is_short(longest)
            return True
    return root in losses.cut or _is_cut(scope, root)


def _is_cut(scope: Scope, place: str) -> bool:
    """Whether a list is cut to the last few: `del losses[:-20]`, `losses[:] = losses[-20:]`."""
    for each in scope.nodes(ast.Subscript):
        if type(each.ctx) is ast.Load or not isinstance(each.slice, ast.Slice) or path_of(each.value) != place:
            continue
        stored = scope.binding(each).value if type(each.ctx) is ast.Store else None
        cut = stored.slice if isinstance(stored, ast.Subscript) else each.slice
        if any(_is_short(one) for one in ast.walk(cut) if isinstance(one, ast.Constant)):
            return True
    return False


def _is_short(length: ast.expr | None) -> bool:
    return isinstance(length, ast.Constant) and isinstance(length.value, int) and length.value <= _FEW


def repeats(
    facts: FileFacts, scope: Scope, kept: KeptValue, differentiating: frozenset[Loop] = frozenset()
) -> bool:
    """Whether a keeper outlives one round: some loop around does not begin it anew, or it is an attribute.

    Where `differentiating` loops are given, those with a `backward()`, others only go through the parts of a loss.
    """
    root = kept.keeper.partition("[")[0]
    root = _behind(scope, root)
    if scope.owns(root):
        return not _is_begun_with_each_backward(facts, scope, root)
    is_by_call = isinstance(kept.statement, ast.Call) and path_of(kept.statement.func) == kept.keeper
    if is_by_call:
        root = _container(facts, kept.statement) or root  # of `callback.on_step(loss)` all callbacks
        if scope.owns(root):
            return True
    name = root_name(root)
    if is_of_outside(facts, scope, name) and not facts.loops(kept.statement):
        return not _is_differentiated_somewhere(facts, root)
    if is_by_call and [each.how for each in scope.bindings.get(name, [])] == ["parameter"]:
        return True  # a meter that the caller has, for many calls
    if (stepping := _stepping_with(scope, name)) is not None:
        scope, at = stepping
        kept = dataclasses.replace(kept, statement=at)
        differentiating = frozenset()
    begins = [
        each.node
        for each in scope.bindings.get(name, [])
        if each.how in ("value", "part", "element", "entered") and not _reads(each.value, name)
    ]
    begins += [call for call in scope.nodes(ast.Call) if path_of(method_call(call, "clear")) == name]
    is_loss = LOSS_LIKE.search((path_of(kept.node) or "").lower()) is not None
    loops = [
        loop
        for loop in facts.loops(kept.statement)
        if not _is_left_in_its_first_round(loop)
        and not _is_over_models(loop)
        and not _is_over_losses(loop, kept)
        and (not differentiating or loop in differentiating)
        and not _is_over_few(loop, only_constants=is_loss)
        and not _is_within_a_batch(facts, begins, kept.statement, loop)
    ]
    return any(not _begins_each_round(facts, begins, kept.statement, loop) for loop in loops)


def _container(facts: FileFacts, call: ast.AST) -> str | None:
    """What a loop goes through, of each object of which a method is called."""
    of = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    through = container_of(facts, of) if isinstance(of, ast.Name) else None
    return path_of(gone_through(through)) if through is not None else None


def _behind(scope: Scope, place: str) -> str:
    """What a name is an entry of: `history` for `row`, where `row = history[epoch]` or `history.setdefault(…)`."""
    for _ in range(_DEEPEST):
        bound = scope.bindings.get(place, [])
        value = bound[0].value if len(bound) == 1 and bound[0].how == "value" else None
        of = method_call(value, "setdefault", "get")
        of = value.value if isinstance(value, ast.Subscript) else of
        path = path_of(of)
        if path is None:
            return place
        place = path.partition("[")[0]
    return place


def is_of_outside(facts: FileFacts, scope: Scope, name: str) -> bool:
    """Whether a function keeps something in a list or number of its file, or of the function around it."""
    if not scope.is_function or (name in scope.bindings and not _is_declared_outside(scope, name)):
        return False
    at = scope.parent
    while at is not None and (isinstance(at.node, ast.ClassDef) or name not in at.bindings):
        at = at.parent
    bound = at.bindings[name] if at is not None else []
    return bool(bound) and all(
        each.how in ("value", "augmented", "definition") and not (at is not facts.module and facts.loops(each.node))
        for each in bound
    )


def _is_declared_outside(scope: Scope, name: str) -> bool:
    """Whether a function adds to a name of the file, or of the function around, and does not begin it anew."""
    declared: list[ast.Global | ast.Nonlocal] = [*scope.nodes(ast.Global), *scope.nodes(ast.Nonlocal)]
    if not any(name in each.names for each in declared):
        return False
    return all(each.how == "augmented" or _reads(each.value, name) for each in scope.bindings[name])


def _is_differentiated_somewhere(facts: FileFacts, place: str) -> bool:
    """Whether some function of the file calls `backward()` on what is kept in a place."""
    calls = (call for name in BACKWARDS for call in facts.calls_by_name.get(name, ()))
    return any(path_of(each) == place for call in calls for each in ast.walk(call))


def _is_begun_with_each_backward(facts: FileFacts, scope: Scope, root: str) -> bool:
    """Whether another method, which calls `backward()` once, begins an attribute anew: it lives for one step."""
    attribute = root.partition(".")[2]
    for method in scope.owner.inner if scope.owner is not None else ():
        calls = [each for each in method.nodes(ast.Call) if called_name(each) in BACKWARDS]
        if method is scope or not calls or any(facts.loops(each) for each in calls):
            continue
        place = f"{method.self_name}.{attribute}"
        begins = (each for each in method.body if isinstance(each, ast.Assign))
        if any(path_of(target) == place for each in begins for target in each.targets):
            return True
    return False


def _is_left_in_its_first_round(loop: Loop) -> bool:
    """Whether a loop ends with a `break`, for the one round that it looks for."""
    return isinstance(loop.body[-1], ast.Break)


def _stepping_with(scope: Scope, name: str) -> tuple[Scope, ast.Call] | None:
    """The function around a closure, of which a name is, and where it gives the closure to `optimizer.step`."""
    around = scope.parent
    is_own = name in scope.bindings and not any(name in each.names for each in scope.nodes(ast.Nonlocal))
    if around is None or is_own or name not in around.bindings:
        return None
    for call in around.nodes(ast.Call):
        given = [*call.args[:1], *(each.value for each in call.keywords)] if called_name(call) == "step" else []
        if any(isinstance(each, ast.Name) and each.id == scope.name for each in given):
            return around, call
    return None


def _is_over_losses(loop: Loop, kept: KeptValue) -> bool:
    """Whether a loop goes through losses, of which what is kept is one: `for loss in losses: total += loss`.

    One over a generator of the project, which trains, is a loop of its own.
    """
    names = {each.id for each in names_in(loop.target)} if isinstance(loop, ast.For) else set()
    inside = [*ast.walk(loop.iter)] if isinstance(loop, ast.For) else []
    is_yielded = any(each.part[:1] == (ANY,) and each.source in inside for each in kept.values)
    return isinstance(kept.node, ast.Name) and kept.node.id in names and not is_yielded


def _is_over_few(loop: Loop, *, only_constants: bool) -> bool:
    """Whether a loop goes over what is written there one by one: no training."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Tuple | ast.List):
        return False
    if isinstance(loop.target, ast.Name) and _FUNCTIONS.search(loop.target.id.lower()):
        return True
    return not only_constants or all(isinstance(each, ast.Constant) for each in loop.iter.elts)


def _is_within_a_batch(facts: FileFacts, begins: list[ast.AST], keeps: ast.AST, loop: Loop) -> bool:
    """Whether a loop goes through the parts of one step, which one around it takes, and begins a keeper anew."""
    if _is_over_batches(loop) or _steps(facts, loop):
        return False
    around = (each for each in facts.loops(loop) if _steps(facts, each))
    return any(_begins_each_round(facts, begins, keeps, each) for each in around)


def _steps(facts: FileFacts, loop: Loop) -> bool:
    """Whether an optimizer takes a step in a loop."""
    return any(isinstance(each, ast.Call) and is_optimizer_step(facts, each) for each in ast.walk(loop))


def _is_over_batches(loop: Loop | ast.comprehension) -> bool:
    """Whether a loop goes through a data loader, as its name tells."""
    if not isinstance(loop, ast.For | ast.comprehension):
        return False
    named = (each for each in ast.walk(loop.iter) if isinstance(each, ast.Name | ast.Attribute))
    return any(_LOADERS.search((each.id if isinstance(each, ast.Name) else each.attr).lower()) for each in named)


def _is_over_models(loop: Loop | ast.comprehension) -> bool:
    """Whether a loop goes over models, tasks or devices, each with one step or a part of one."""
    if not isinstance(loop, ast.For | ast.comprehension):
        return False
    names = [each.id for each in names_in(loop.target)]
    if any(each in _PARTS for each in names):
        return True
    return (path_of(loop.iter) or "").endswith(("_names", "tasks", "domains", "modalities"))


def _begins_each_round(facts: FileFacts, begins: list[ast.AST], keeps: ast.AST, loop: Loop) -> bool:
    """Whether each round of a loop begins a keeper anew: not only in one branch of an `if`."""
    around = branches(facts, keeps, loop)
    ways = [branches(facts, each, loop) for each in begins if loop in facts.loops(each)]
    taken = {branch for way in ways for branch in way}
    return any(
        all(
            (at, is_body) in around or ((at, not is_body) in taken and (at, not is_body) not in around)
            for at, is_body in way
        )
        for way in ways
    )


def _reads(node: ast.expr | None, name: str) -> bool:
    return node is not None and any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))
