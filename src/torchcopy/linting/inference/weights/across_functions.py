"""States that one function keeps and another one loads or saves: in an attribute, or in an object given to both."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import called_name, method_call, names_in, path_of, root_name, strip_calls
from ..scopes import Scope
from ..summaries import GIVES_ITSELF, bases_of, is_optimizer_step
from .devices import is_on_gpu
from .module_paths import given_other_tensors
from .places import is_in
from .purpose import is_replaced_later, is_rewritten
from .returned_states import is_copy
from .rounds import SIGNS_OF_TRAINING, is_at_times, is_of_a_round
from .state_flow import KeptStates
from .states import State, Use
from .training import updates

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_KEEPS = re.compile(r"save|store|back_?up|cache|snapshot|stash|keep|remember|__init__|__enter__")
_OF_EARLIER = re.compile(r"best|last|prev|old|good|before|back_?up|snapshot|initial|earlier")
_OF_NOW = re.compile(r"^_*(model_?|net_?|module_?)?(state|weights?|params|parameters)?(_dict)?$")
_DEEPEST = 3  # calls of calls
_STOPPERS = re.compile(r"earl|best")
_PUTS_BACK = re.compile(r"restore|recover|reset|revert|roll_?back|undo|load|__exit__")


def flow_of(facts: FileFacts, scope: Scope) -> KeptStates:
    """The states of a function, followed once."""
    known = facts.kept_states
    if scope not in known:
        known[scope] = flow = KeptStates(facts, scope)
        flow.run(scope.body)
    return known[scope]


def across_functions(facts: FileFacts, flows: dict[Scope, KeptStates]) -> Iterator[tuple[State, Use]]:
    """Each state that a function of a file leaves kept, with a use of it in another one."""
    uses = [(user, use) for user, flow in flows.items() for use in flow.unknown_uses]
    for keeper, flow in flows.items():
        for state in flow.at_exit:
            if state.kept.copied_on_gpu and is_on_gpu(facts, keeper, state.kept.module):
                continue
            if attribute := _attribute_of(state.place, keeper.self_name):
                inherited = _inherited(facts, keeper, attribute)
                all_flows = flows | inherited
                if _is_left_in_attribute(facts, all_flows, keeper, state):
                    more = [(user, use) for user, each in inherited.items() for use in each.unknown_uses]
                    yield from (
                        (state, use)
                        for user, use in (*uses, *more)
                        if _is_used(facts, flow, keeper, state, user, use)
                    )
            elif (outer := _outer_scope(keeper, state)) is not None:
                yield from (
                    (state, use) for user, use in uses if _is_used_outside(facts, keeper, state, outer, user, use)
                )
            elif _is_left_in_given_object(keeper, state):
                yield from (
                    (state, use) for user, use in uses if _is_loaded_from_it(facts, keeper, state, user, use)
                )


def _inherited(facts: FileFacts, keeper: Scope, attribute: str) -> dict[Scope, KeptStates]:
    """The methods that a class has from other files, as far as they read an attribute, and what they do with it."""
    found: dict[Scope, KeptStates] = {}
    own = {each.name for each in keeper.owner.inner} if keeper.owner is not None else set()
    for base_facts, base in bases_of(facts, keeper.owner) if keeper.owner is not None else ():
        for each in base.inner if base_facts is not facts else ():
            reads = each.is_function and any(one.attr == attribute for one in each.nodes(ast.Attribute))
            if reads and each.name not in own:
                found[each] = flow_of(base_facts, each)
    return found


def _is_kin(facts: FileFacts, one: Scope | None, other: Scope | None) -> bool:
    """Whether two methods may be of one object: of the same class, or of one that derives from the other."""
    if one is None or other is None:
        return False
    return one is other or any(
        base is each
        for start, each in ((one, other), (other, one))
        if start.node in facts.parents
        for _, base in bases_of(facts, start)
    )


def _may_be_trained(facts: FileFacts, keeper: Scope, state: State) -> bool:
    """Whether the module is given to the method that keeps its state, or something in the file trains."""
    if state.is_trained:
        return True
    handed = {each.arg for each in keeper.parameters} - {keeper.self_name}
    is_handed = state.kept.module.partition(".")[0] in handed
    return is_handed or any(each in facts.source.text for each in SIGNS_OF_TRAINING)


def _is_put_back(keeper: Scope, user: Scope, use: Use) -> bool:
    """Whether one method keeps what another one is there to put back, as `save_state` and `restore_state` do."""
    is_pair = _KEEPS.search(keeper.name) is not None and _PUTS_BACK.search(user.name) is not None
    return is_pair and user is not keeper and use.role == "loaded"


def _is_left_in_attribute(facts: FileFacts, flows: dict[Scope, KeptStates], keeper: Scope, state: State) -> bool:
    """Whether a method leaves a state in its object, not to be written there."""
    attribute = _attribute_of(state.place, keeper.self_name)
    if keeper.owner is None or not attribute:
        return False
    is_plain = "[*]" not in state.place and not _OF_EARLIER.search(attribute.lower())
    if state.kept.is_returned and is_plain and not state.is_trained:
        return False  # such a method is asked at the end too
    if "[" not in state.place and is_rewritten(keeper, state.place):
        return False
    if method_call(state.kept.call, "state_dict") is None and _puts_other_tensors(facts, keeper):
        return False  # they change places with others: nothing is written into them
    module = state.kept.module
    if module in flows[keeper].rebound and not module.startswith(f"{keeper.self_name}."):
        return False  # nobody trains a module later that was made here, and is no attribute
    if is_plain and _is_latest(facts, keeper, state, attribute):
        return False
    methods = [
        (f"{each.self_name}.", flow) for each, flow in flows.items() if _is_kin(facts, each.owner, keeper.owner)
    ]
    is_begun = keeper.name == "__init__"
    if is_begun and any(f"{own}{attribute}" in flow.copied for own, flow in methods):
        return False  # only what it begins with is no copy
    if is_begun and is_replaced_later(facts, keeper, attribute):
        return False
    if root_name(module) in {each.arg for each in keeper.parameters[1:]} and _is_written_out(keeper, attribute):
        return False  # the object is a checkpoint on its way into a file
    rest = state.place[len(keeper.self_name) + 1 :]
    return not any(f"{own}{rest}" in flow.written_through for own, flow in methods)


def _is_latest(facts: FileFacts, keeper: Scope, state: State, attribute: str, depth: int = 0) -> bool:
    """Whether a method always leaves the weights that it has just trained, under a name that says no more."""
    at = facts.statement_of(state.kept.call)
    if at is None or depth > _DEEPEST or not _OF_NOW.search(attribute.lower()):
        return False
    left_by = facts.definition(state.kept.call.func) if isinstance(state.kept.call, ast.Call) else None
    if left_by is not None and left_by.facts is facts and left_by.scope.owner is keeper.owner:
        place = f"{left_by.scope.self_name}{state.place[len(keeper.self_name) :]}"
        left = [each for each in flow_of(facts, left_by.scope).at_exit if each.place == place]
        return bool(left) and all(_is_latest(facts, left_by.scope, each, attribute, depth + 1) for each in left)
    if facts.above_statements(at):
        return False  # at times
    others = (each for each in (keeper.owner.inner if keeper.owner is not None else ()) if each is not keeper)
    if any(is_optimizer_step(facts, call) for each in others for call in each.nodes(ast.Call)):
        return False
    calls = (each for each in keeper.nodes(ast.Call) if updates(facts, each, state.kept.module))
    trained = [each.lineno < at.lineno for each in calls]
    return bool(trained) and all(trained)


def _puts_other_tensors(facts: FileFacts, keeper: Scope) -> bool:
    """Whether some method of the class gives parameters other tensors: `p.data = w + step * d`."""
    methods = keeper.owner.inner if keeper.owner is not None else ()
    return any(given_other_tensors(facts, each.node) for each in methods)


def _is_written_out(keeper: Scope, attribute: str) -> bool:
    """Whether another method of the class pickles what it goes through in an attribute."""
    methods = keeper.owner.inner if keeper.owner is not None else ()
    return any(
        method is not keeper
        and any(each.attr == attribute for each in method.nodes(ast.Attribute))
        and any(called_name(each) in ("dump", "dumps") for each in method.nodes(ast.Call))
        for method in methods
    )


def _is_used(facts: FileFacts, flow: KeptStates, keeper: Scope, state: State, user: Scope, use: Use) -> bool:
    """Whether a method of the class, or a user of the object, reads what is left in an attribute."""
    if _is_kin(facts, user.owner, keeper.owner):
        place = f"{user.self_name}{state.place[len(keeper.self_name) :]}"
        is_it = is_in(place, use.place) or (use.role == "compared" and is_in(use.place, place))
    else:
        attribute = _attribute_of(state.place, keeper.self_name)
        is_it = _ends_alike(use.place, attribute) and (
            "best" in attribute or _is_made_of(facts, user, use.place.rpartition(".")[0], keeper.owner)
        )
        if is_it and _calls(facts, user, keeper):
            return False  # what is left is followed through the function that calls
    if not is_it or not (_may_be_trained(facts, keeper, state) or _is_put_back(keeper, user, use)):
        return False
    if not use.is_with_module:
        stale = flow.stale_at_call.get(user.name, ())
        is_of_each_round = "[*]" in state.place and is_of_a_round(keeper)
        is_at_once = (user.name in flow.called or (user is keeper and not is_of_each_round)) and state not in stale
        is_older = "best" in state.place or is_of_each_round or ("[*]" in state.place and state.is_trained)
        is_older = is_older or (use.role == "saved" and _is_of_stopper(keeper, user))
        return is_older and not is_at_once
    if use.since_made is not None and keeper.name not in use.since_made:  # the user has made the module anew
        if "[*]" in state.place:
            return _is_put_back(keeper, user, use)
        return _is_kept_as_best(facts, keeper, state) and user.owner is not keeper.owner
    if user is keeper and "[*]" not in state.place and not is_at_times(facts, state.kept.call, use.node):
        return False  # it is kept anew before each use
    loads_whole = "." not in use.module and state.kept.is_returned  # `self.load_state_dict(…)` loads `self.model`
    return _is_same_module(facts, state, use, keeper) or (
        loads_whole and state.kept.module.startswith(f"{use.module}.")
    )


def _is_of_stopper(keeper: Scope, user: Scope) -> bool:
    """Whether one method of an object that waits for the best round keeps, and another saves, not right after."""
    owner = keeper.owner
    if owner is None or user is keeper or not _STOPPERS.search(owner.name.lower()):
        return False
    blocks = (
        block
        for method in owner.inner
        for node in ast.walk(method.node)
        for block in (getattr(node, "body", None), getattr(node, "orelse", None))
        if isinstance(block, list)
    )
    return not any({keeper.name, user.name} <= {*_called_in(block)} for block in blocks)


def _called_in(block: list[ast.stmt]) -> Iterator[str]:
    """The names of what the statements of a block call."""
    yield from (
        called_name(each.value) for each in block if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)
    )


def _calls(facts: FileFacts, user: Scope, keeper: Scope) -> bool:
    """Whether a function calls a method, of an object whose class is known."""
    calls = (each for each in user.nodes(ast.Call) if called_name(each) == keeper.name)
    found = (facts.definition(each.func) for each in calls)
    return any(each is not None and each.scope is keeper for each in found)


def _is_made_of(facts: FileFacts, user: Scope, place: str, owner: Scope | None) -> bool:
    """Whether what a function has in a place was made by calling a class of the file, or is annotated so."""
    bound = facts.bindings_of_path(user, place)
    found = [facts.definition(each.value.func) for each in bound if isinstance(each.value, ast.Call)]
    if any(each is not None and each.scope is owner for each in found):
        return True
    told = [each.annotation for each in user.parameters if each.arg == place]
    return owner is not None and len(bound) == 1 and any(_is_named(each, owner.name) for each in told)


def _is_named(annotation: ast.expr | None, name: str) -> bool:
    """Whether an annotation is the name of a class, maybe as text or with `| None`."""
    return annotation is not None and name in re.findall(r"\w+", ast.unparse(annotation))


def _is_kept_as_best(facts: FileFacts, keeper: Scope, state: State) -> bool:
    """Whether a state is kept at times only, where a name tells that it is the best one."""
    owner = keeper.owner.name if keeper.owner is not None else ""
    is_named = re.search(r"best|earl|improve", f"{owner} {keeper.name} {state.place}".lower()) is not None
    return is_named and _is_in_the_midst(facts, state)


def _outer_scope(keeper: Scope, state: State) -> Scope | None:
    """The scope around a function, or the module, that has the name in which the function leaves a state."""
    name = root_name(state.place)
    declared = {each for node in keeper.nodes(ast.Global) for each in node.names}
    outer = {each for node in keeper.nodes(ast.Nonlocal) for each in node.names}
    if not name or name == keeper.self_name or (name in keeper.bindings and name not in declared | outer):
        return None
    at = keeper.parent
    while at is not None:
        is_module = at.parent is None
        if name in at.bindings and (is_module or (at.is_function and name not in declared)):
            return at
        at = at.parent
    return None


def _is_used_outside(facts: FileFacts, keeper: Scope, state: State, outer: Scope, user: Scope, use: Use) -> bool:
    """Whether the function around, or one that sees a name of the file, reads the state that is left there."""
    name = root_name(use.place)
    is_seen = user is outer or (outer in _around(user) and name not in user.bindings)
    is_whole = not use.is_with_module and is_in(state.place, use.place)  # the dict that it is in
    if not is_seen or not (is_whole or is_in(use.place, state.place)):
        return False
    if not use.is_with_module:  # saved or returned, as the best of all
        is_sibling = state.is_trained or (user is not outer and outer is not facts.module)
        if not (is_sibling and "best" in use.place.lower() and _is_in_the_midst(facts, state)):
            return False
        calls = [
            each
            for each in (facts.calls_by_name.get(user.name, ()) if user.name else ())
            if (found := facts.definition(each.func)) is not None and found.scope is user
        ]
        is_at_once = any(facts.scope_of(each) is keeper for each in calls)
        return not is_at_once or (
            state.is_trained and not all(_is_called_at_once(facts, each, state.place) for each in calls)
        )
    return _is_same_module(facts, state, use, keeper) and any(
        each in facts.source.text for each in SIGNS_OF_TRAINING
    )


def _is_called_at_once(facts: FileFacts, call: ast.Call, place: str) -> bool:
    """Whether a call stands in a function that leaves a state in a place, or where one has said that it did."""
    told = (each for at in facts.above(call) if isinstance(at, ast.If) for each in ast.walk(at.test))
    asked = (facts.definition(each.func) for each in told if isinstance(each, ast.Call))
    keepers = [facts.scope_of(call), *(each.scope for each in asked if each is not None and each.facts is facts)]
    return any(left.place == place for each in keepers for left in flow_of(facts, each).at_exit)


def _is_in_the_midst(facts: FileFacts, state: State) -> bool:
    """Whether a state is kept at times only, as the better one: in a branch."""
    return any(isinstance(each, ast.If) for each in facts.above(state.kept.call))


def _around(scope: Scope) -> Iterator[Scope]:
    """The scopes around a function, whose names it sees."""
    at = scope.parent
    while at is not None:
        yield at
        at = at.parent


def _is_left_in_given_object(keeper: Scope, state: State) -> bool:
    """Whether a function leaves a state, as the best, in an object that it is given together with the module."""
    given = {each.arg for each in keeper.parameters} - {keeper.self_name}
    name, _, attribute = state.place.partition(".")
    return name in given and "best" in attribute and state.kept.module.partition(".")[0] in given


def _is_loaded_from_it(facts: FileFacts, keeper: Scope, state: State, user: Scope, use: Use) -> bool:
    """Whether another function that is given an object of the same name loads what is left there."""
    is_given = any(each.arg == use.place.partition(".")[0] for each in user.parameters)
    is_it = use.is_with_module and use.place == state.place
    return user is not keeper and is_given and is_it and _is_same_module(facts, state, use, keeper)


def _is_same_module(facts: FileFacts, state: State, use: Use, keeper: Scope) -> bool:
    """Whether what is loaded goes into a module of the same name, or into the object that the name is of."""
    made = [each.value for each in facts.bindings_of_path(keeper, use.module)] if keeper.owns(use.module) else []
    if use.module != state.kept.module and any(_is_of_another(each, state.kept.module) for each in made):
        return False  # `self.anchor = [p.data for p in model.parameters()]`, `self.model = copy.deepcopy(model)`
    if use.module.rpartition(".")[2] == state.kept.module.rpartition(".")[2]:
        return True
    bound = keeper.bindings.get(state.kept.module, [])
    value = bound[0].value if len(bound) == 1 else None  # `net = self.to(device)`
    return value is not None and use.module == keeper.self_name == path_of(strip_calls(value, *GIVES_ITSELF)[0])


def _is_of_another(value: ast.expr | None, module: str) -> bool:
    """Whether a value is a copy of a module, or what a call makes without being given it."""
    inner = strip_calls(value, *GIVES_ITSELF)[0] if value is not None else None
    is_made = isinstance(inner, ast.Call) and not any(each.id == root_name(module) for each in names_in(inner))
    return value is not None and (is_copy(value) or is_made)


def _attribute_of(place: str, self_name: str) -> str:
    """`best` of `self.best['model']`; nothing for another place."""
    if not place.startswith(f"{self_name}."):
        return ""
    return place[len(self_name) + 1 :].partition("[")[0]


def _ends_alike(place: str, attribute: str) -> bool:
    """Whether a place outside of the class may be this attribute of one of its objects: `stopper.best_state`."""
    return place.partition("[")[0].endswith(f".{attribute}") and not place.startswith("self.")
