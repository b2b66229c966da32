"""States that are taken entry by entry: by comprehensions over a `state_dict()` or parameters, and by maps."""

from __future__ import annotations

import ast
import dataclasses
import re
from typing import TYPE_CHECKING

from ..nodes import called_name, is_true, keyword, method_call, path_of, strip_calls
from .module_paths import owner_of
from .places import in_container
from .things import thing_of

if TYPE_CHECKING:
    from ..file_facts import FileFacts

from .kept import COPIED_ON_GPU, Kept

_KEEPING = ("cpu", "to", "detach", "numpy", "data", "contiguous", "view", "requires_grad_")
_VIEWS = ("numpy.asarray", "numpy.float32", "torch.as_tensor", "torch.from_numpy")
NAMES_OF_SNAPSHOTS = re.compile(
    r"(^|_)(best|old|prev|previous|initial|init|before|start|anchor|anchors|backup|snapshot|orig|original|saved|last|"
    r"theta0|ref|reference|stored)(_|$)|_old$|_before$"
)
"""Names of variables in which values of parameters are kept."""


def of_several(facts: FileFacts, node: ast.DictComp | ast.ListComp) -> list[Kept]:
    """`{name: m.state_dict() for name, m in models.items()}`: the states of the modules that a container holds."""
    value = node.value if isinstance(node, ast.DictComp) else node.elt
    of = method_call(value, "state_dict")
    path = in_container(facts, of) if of is not None else None
    if path is None or of is None or len(node.generators) != 1 or not isinstance(value, ast.Call):
        return []
    thing = thing_of(facts, of, path.removesuffix("[*]"))
    if not thing or value.args:
        return []
    return [Kept("[*]", path, value, optimizer=thing == "optimizer")]


def of_comprehension(
    facts: FileFacts, node: ast.DictComp | ast.ListComp | ast.GeneratorExp, depth: int
) -> list[Kept]:
    """`{k: v.cpu() for k, v in model.state_dict().items()}`: the values are the model's own, but for a move."""
    from .kept_states import kept_in  # which itself asks this file

    if len(node.generators) != 1:
        return []
    loop = node.generators[0]
    given = node.value if isinstance(node, ast.DictComp) else node.elt
    if isinstance(node, ast.GeneratorExp) and isinstance(given, ast.Tuple):
        given = given.elts[1]
    if isinstance(given, ast.IfExp):  # `v.cpu() if v is not None else v`
        given = given.body
    value, methods = strip_calls(_within_views(facts, given), *_KEEPING)
    of = method_call(loop.iter, "items")
    if (module := owner_of(loop.iter)) is not None:
        return _of_parameters(facts, node, module, value, methods)
    if isinstance(node, ast.ListComp) and (values := method_call(loop.iter, "values")) is not None:
        if not (isinstance(value, ast.Name) and isinstance(loop.target, ast.Name) and value.id == loop.target.id):
            return []
        of = values
    elif of is not None and isinstance(loop.target, ast.Tuple) and len(loop.target.elts) == 2:
        wanted = loop.target.elts[1]
        if not (isinstance(value, ast.Name) and isinstance(wanted, ast.Name) and value.id == wanted.id):
            return []
    else:
        of = loop.iter if method_call(loop.iter, "keys") is None else method_call(loop.iter, "keys")
        same = isinstance(value, ast.Subscript) and of is not None and _is_same(value.value, of)
        if not same:
            return []
    if _copies(given):
        return []
    moved = any(each in COPIED_ON_GPU for each in methods)
    return [
        dataclasses.replace(each, call=node, copied_on_gpu=moved or each.copied_on_gpu)
        for each in kept_in(facts, of, depth + 1)
        if not each.suffix
    ]


def _of_parameters(
    facts: FileFacts, node: ast.expr, module: str, value: ast.expr, methods: list[str]
) -> list[Kept]:
    """`{name: p.cpu() for name, p in model.named_parameters()}`, as far as it is not TC109's.

    That code tells of lists and dicts of parameters that are kept as they are where they are written.
    """
    loop = node.generators[0] if isinstance(node, ast.DictComp | ast.GeneratorExp | ast.ListComp) else None
    of = method_call(loop.iter, "parameters", "named_parameters") if loop is not None else None
    last = loop.target.elts[-1] if loop is not None and isinstance(loop.target, ast.Tuple) else None
    last = loop.target if loop is not None and last is None else last
    is_same = isinstance(value, ast.Name) and isinstance(last, ast.Name) and value.id == last.id
    moved = any(each in COPIED_ON_GPU for each in methods)
    if not is_same or _copies(node) or any("not " in ast.unparse(each) for each in (loop.ifs if loop else ())):
        return []  # also of those that nothing trains: `if not p.requires_grad`
    if of is None:  # of a list of parameters: other values only where they are taken out of the graph
        return [Kept("", module, node, copied_on_gpu=moved)] if {"data", "detach"} & {*methods} else []
    if (not moved and is_of_tc109(facts, node)) or thing_of(facts, of, module) != "module":
        return []
    return [Kept("", module, node, copied_on_gpu=moved)]


def is_of_tc109(facts: FileFacts, node: ast.expr) -> bool:
    """Whether parameters are bound to a name as TC109 looks for: `best = dict(model.named_parameters())`."""
    above = facts.parent(node)
    while isinstance(above, ast.Call):
        above = facts.parent(above)
    targets = above.targets if isinstance(above, ast.Assign) else []
    return any(isinstance(each, ast.Name) and NAMES_OF_SNAPSHOTS.search(each.id.lower()) for each in targets)


def of_mapped(facts: FileFacts, node: ast.expr, body: ast.expr, of: ast.expr, depth: int) -> list[Kept]:
    """Of `tree_map(lambda x: x.cpu(), model.state_dict())`."""
    from .kept_states import kept_in  # which itself asks this file

    value, methods = strip_calls(_within_views(facts, body), *_KEEPING)
    if not isinstance(value, ast.Name) or _copies(body):
        return []
    moved = any(each in COPIED_ON_GPU for each in methods)
    return [
        dataclasses.replace(each, call=node, copied_on_gpu=moved or each.copied_on_gpu)
        for each in kept_in(facts, of, depth + 1)
    ]


def _within_views(facts: FileFacts, node: ast.expr) -> ast.expr:
    """What is behind functions that copy nothing where there is no need: `x` of `np.asarray(x)`."""
    while isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        if facts.resolve(node.func) not in _VIEWS:
            break
        node = node.args[0]
    return node


def _is_same(one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions are the same place, or the state of the same place."""
    first, second = method_call(one, "state_dict") or one, method_call(other, "state_dict") or other
    return path_of(first) is not None and path_of(first) == path_of(second)


def _copies(node: ast.expr) -> bool:
    """Whether a move in a chain of methods copies for sure, or changes the type and so may well."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and called_name(each) == "to":
            if is_true(keyword(each, "copy")) or keyword(each, "dtype") is not None:
                return True
            if any(isinstance(one, ast.Attribute) and path_of(one.value) == "torch" for one in each.args):
                return True
            if any("dtype" in (path_of(one) or "").rpartition(".")[2] for one in each.args):
                return True
        if isinstance(each, ast.Call) and called_name(each) == "numpy" and method_call(each.func, "copy"):
            return True
    return False
