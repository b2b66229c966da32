"""Which of the losses that a function keeps outlive their round, each with the graph that hangs on it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ..nodes import called_name, keyword, path_of, strip_calls
from ..scopes import Scope
from ..values.kinds import UNKNOWN
from .differentiated import differentiated_attributes
from .hot_losses import needed_values
from .loops import is_over_batches, is_over_models
from .loss_ends import is_bounded, is_detached_there, is_used_up
from .loss_flow import Losses, losses_of
from .loss_places import branches
from .loss_rounds import repeats
from .loss_summands import is_detached, is_list_of_tensors
from .loss_terms import detaches, may_be_tensor, shown
from .loss_values import KeptValue, Value

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_NUMBERS = {"int", "float", "bool", "Number", "floating", "ndarray"}
_ROUNDS = re.compile(r"^t?range\(|\b(data|batch(es)?|samples|iterator|train\w*)\b|\.(split|chunk|batch\w*)\(")


def is_leak(facts: FileFacts, scope: Scope, losses: Losses, kept: KeptValue, *, given: Value | None = None) -> bool:
    """Whether it is kept over rounds, not itself to be differentiated, and not only the last few of them.

    A parameter that is `given` a loss is one, whatever its annotation says.
    """
    if not keeps_graphs(facts, scope, losses, kept, given=given):
        return False
    root = kept.keeper.partition("[")[0]
    if is_bounded(facts, losses, root):
        return False
    is_behind = bool(losses.backwards) and not losses.backward_loops and bool(facts.loops(kept.statement))
    if is_behind and kept.values & needed_values(losses) and not scope.owns(root):
        return False  # the graphs of all rounds are wanted until they are differentiated, behind the loop
    sources = [each.source.func for each in kept.values if isinstance(each.source, ast.Call)]
    differentiating = frozenset() if any(map(facts.definition, sources)) else frozenset(losses.backward_loops)
    return repeats(facts, scope, kept, differentiating)


def is_leak_of_output(facts: FileFacts, scope: Scope, losses: Losses, kept: KeptValue) -> bool:
    """Whether what a model gave is listed in the round, or call, in which `backward()` went through its graph."""
    loop = facts.loops(kept.statement)[:1]
    around = {*branches(facts, kept.statement, None)}
    ways = [{*branches(facts, each, None)} for each in losses.backward_calls if facts.loops(each)[:1] == loop]
    is_done = any(loop or around == way for way in ways)
    if not loop and kept.keeper.count(".") > 1:
        return False  # of another object, which others may empty
    return is_done and not kept.is_sum and is_leak(facts, scope, losses, kept)


def keeps_graphs(
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
    made = {each for each in kept.values - begins if not _is_placeholder(facts, each.source)}
    computed = {each for each in made if not (isinstance(each.source, ast.Constant) and each.source.value == 0)}
    is_sure = all(may_be_tensor(each.source) for each in computed)  # what stands beside a 0 is no number itself
    if any(is_detached(losses, each, derived=True) for each in (computed if is_sure else made)):
        return False  # on one of the ways
    if any(
        may_be_tensor(each.source) and facts.is_without_graph(each.node)
        for each in _bound_by_loop_before(facts, kept, computed)
    ):
        return False  # as the last loss of a validation
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
    if _is_told_a_number(facts, kept) or is_detached_there(losses, kept):
        return False
    if not is_slot_known and _is_put_in_array(facts, kept.statement):
        return False
    if _is_another_way(facts, losses, kept.statement):
        return False
    added = kept.values - begins if not kept.is_sum else set()
    if added and all(_may_be_set_elsewhere(facts, scope, each, kept.statement) for each in added):
        return False
    if losses.is_for_caller and is_used_up(facts, scope, root):
        return False
    return not _is_in_evaluation(facts, kept.statement)


def is_leak_of_comprehension(facts: FileFacts, scope: Scope, node: ast.ListComp | ast.GeneratorExp) -> bool:
    """Whether a comprehension goes through the rounds of a training, and is not itself differentiated."""
    loop = node.generators[0]
    bound = facts.bindings(loop.iter) if isinstance(loop.iter, ast.Name) else []
    through = [loop.iter, *(each.value for each in bound if each.value is not None)]  # `parts = x.split(64)`
    is_of_rounds = any(_ROUNDS.search(ast.unparse(each)) for each in through)
    if len(node.generators) > 1 or not (is_over_batches(loop) or is_of_rounds):
        return False
    if facts.is_without_graph(node) or is_over_models(loop) or "micro" in ast.unparse(loop.iter):
        return False
    at = facts.statement_of(node)
    places = {path_of(each) for each in at.targets} if isinstance(at, ast.Assign) else set()
    return not places or not places & losses_of(facts, scope).backward_places


def _is_placeholder(facts: FileFacts, source: ast.expr | None) -> bool:
    """Whether a value is a tensor that stands where there is no loss: `torch.zeros(1)`."""
    inner = strip_calls(source, "to", "cuda", "cpu")[0] if source is not None else None
    return isinstance(inner, ast.Call) and facts.resolve(inner.func) in ("torch.zeros", "torch.zeros_like")


def _may_be_set_elsewhere(facts: FileFacts, scope: Scope, value: Value, at: ast.AST) -> bool:
    """Whether a method of another file, called in between, may set an attribute that was a sum: `self.evaluate()`.

    The sum itself is told of.
    """
    if not isinstance(value.node, ast.AugAssign) or not scope.owns(value.place):
        return False
    between = range(value.node.lineno, getattr(at, "lineno", 0))
    return any(
        call.lineno in between
        and (path := path_of(call.func)) is not None
        and path.rpartition(".")[0] == scope.self_name
        and facts.definition(call.func) is None
        and not facts.bindings_of_path(scope, path)
        for call in scope.nodes(ast.Call)
    )


def _bound_by_loop_before(facts: FileFacts, kept: KeptValue, values: set[Value]) -> set[Value]:
    """Those of some values that the loop before a statement binds in each round: it goes round at least once."""
    at = kept.statement
    around = facts.loops(at)
    before = [each for each in values if getattr(each.node, "lineno", 0) < getattr(at, "lineno", 0)]
    last = max(before, key=lambda each: getattr(each.node, "lineno", 0), default=None)
    loops = [each for each in facts.loops(last.node) if each not in around] if last is not None else []
    if last is None or not loops:
        return set()
    for above in facts.above(last.node):
        if above is loops[-1]:
            return {each for each in values if loops[-1] in facts.loops(each.node)}
        if isinstance(above, ast.If):
            taken = {
                is_body for each in values for at_if, is_body in branches(facts, each.node, None) if at_if is above
            }
            if len(taken) < 2:
                break
        elif not isinstance(above, ast.For | ast.While | ast.With):
            break
    return set()


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


def _is_taken_out(scope: Scope, name: str) -> bool:
    """Whether what adds up is an entry of something, as `total = meters["loss"]`: an object of whatever class."""
    made = [each.value for each in scope.bindings.get(name, ()) if each.how == "value"]
    return bool(made) and all(isinstance(each, ast.Subscript) for each in made)


def _is_put_in_array(facts: FileFacts, statement: ast.AST) -> bool:
    """Whether a loss is written into an array, or what may be one: `losses[step] = loss` makes a number of it."""
    match statement:
        case (
            ast.Assign(targets=[ast.Subscript(value=of, slice=key)])
            | ast.AugAssign(target=ast.Subscript(value=of, slice=key))
        ):
            place, scope, kind = path_of(of) or "", facts.scope_of(statement), facts.kind_of(of)
            is_of_another = place.count(".") > int(scope.owns(place))  # may well be an array
            if facts.is_without_graph(statement) and kind.name not in ("dict", "list"):
                return True  # only its number goes into a tensor
            is_by_name = isinstance(key, ast.Constant) and isinstance(key.value, str)  # of a dict, then
            is_given = not (kind.is_known or is_by_name) and [
                each.how for each in scope.bindings.get(place, ())
            ] == ["parameter"]
            return is_of_another or is_given or (kind.name == "ndarray" and not _is_of_objects(facts, of))
    return False


def _is_of_objects(facts: FileFacts, node: ast.expr) -> bool:
    """Whether an array keeps the objects themselves: `np.empty(steps, dtype=object)`."""
    bound = facts.bindings(node) if isinstance(node, ast.Name) else []
    made = [each.value for each in bound if isinstance(each.value, ast.Call)]
    return bool(made) and all(
        path_of(keyword(each, "dtype")) in ("object", "np.object_", "numpy.object_") for each in made
    )


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
