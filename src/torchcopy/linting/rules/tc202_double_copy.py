"""TC202: two copies in a row, of which one would do: `t.clone().cpu()`, `load_state_dict(deepcopy(state))`.

Moves and casts (`cpu`, `to`, `float`) copy only where they have to, so that a clone next to one is needed in half
of the cases. `to(…, copy=True)` copies once in both.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator

from ..call_edits import renamed_call, unwrapped_call, with_argument, without_method
from ..findings import Edit, Finding, Fix
from ..inference.file_facts import FileFacts
from ..inference.nodes import called_name, is_true, keyword, method_call, path_of, strip_calls
from ..inference.scopes import Scope
from ..inference.summaries import find_method
from ..inference.values.looks import looks_like_tensor
from ..inference.values.memory import are_apart, written_in

CODE = "TC202"
NEEDS = (".clone(", ".numpy().copy(", "deepcopy(")

_DTYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
}
_MOVES = {"to", "cpu", "cuda", *_DTYPES}
_NO_FLOATS = re.compile(r"fp16|bf16|half|param|mask|one_?hot|uint8|image|pixel|label|count|walk|bool|index")
_TENSOR_STEPS = {"detach", "numpy", "unsqueeze", "requires_grad_", "item", "tolist", "data", "new_tensor"}
_BETWEEN = {"detach", "data"}
_ENDS = {*_MOVES, "clone", "contiguous", "copy", "tolist", "item"}
_NO_MODULES = re.compile(
    r"opt|sched|scaler|sampler|loader|ema|metric|generator|rng|env|buffer|state|callback|trainer"
)
_MODULES = re.compile(
    r"model|net(work)?\d*$|module|encoder|decoder|actor|critic|policy|target|teacher|student|head"
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Step:
    """A call of a chain, or an attribute of it."""

    name: str
    call: ast.Call | None

    @property
    def is_bare(self) -> bool:
        """Whether it is called without arguments."""
        return self.call is not None and not self.call.args and not self.call.keywords


def check(facts: FileFacts) -> Iterator[Finding]:
    """The second call of each pair of copies."""
    for scope in facts.scopes:
        for call in scope.nodes(ast.Call):
            name = called_name(call)
            if name in _ENDS and isinstance(call.func, ast.Attribute):
                yield from _in_chain(facts, call)
            elif name == "load_state_dict":
                yield from _loaded(facts, call)
            elif name == "copy_":
                yield from _copied_into(facts, call)
        if ".clone()" in facts.source.text:
            for operator in scope.nodes(ast.BinOp):
                yield from _operands(facts, scope, operator)


def _chain(call: ast.Call) -> tuple[ast.expr, list[_Step]]:
    """What a chain of methods starts with, and its last calls, first one first."""
    steps: list[_Step] = []
    at: ast.expr = call
    while len(steps) < 6:
        if isinstance(at, ast.Call) and isinstance(at.func, ast.Attribute):
            steps.append(_Step(at.func.attr, at))
            at = at.func.value
        elif isinstance(at, ast.Attribute) and at.attr == "data":
            steps.append(_Step("data", None))
            at = at.value
        else:
            break
    return at, steps[::-1]


def _in_chain(facts: FileFacts, call: ast.Call) -> Iterator[Finding]:
    _, steps = _chain(call)
    last = steps[-1]
    at = len(steps) - 2
    while at >= 0 and steps[at].name in _BETWEEN:
        at -= 1
    if at < 0:
        return
    first = steps[at]
    if first.call is None or not isinstance(first.call.func, ast.Attribute):
        return
    value = first.call.func.value
    is_tensor = any(each.name in _TENSOR_STEPS for each in (*steps[:at], *steps[at + 1 :], *_after(facts, call)))
    if last.name == "copy":
        if first.name == "numpy" and first.is_bare and last.is_bare:
            yield from _array_copied(facts, steps[:at], call)
        return
    if first.name == "clone" and first.is_bare and last.name in _MOVES:
        yield from _moved(facts, value, first.call, call, call, is_tensor)
    elif last.name == "clone" and last.is_bare and first.name in _MOVES:
        yield from _moved(facts, value, call, first.call, call, is_tensor)
    elif {first.name, last.name} == {"clone", "contiguous"} and first.is_bare and last.is_bare:
        if last.name == "clone" or _is_transposed(value):
            yield from _made_contiguous(facts, value, first.call, call)
    elif first.name == "clone" and first.is_bare and last.is_bare and last.name in ("clone", "tolist", "item"):
        yield from _cloned_for_nothing(facts, value, first.call, call)


def _after(facts: FileFacts, call: ast.Call) -> Iterator[_Step]:
    """The methods called on what a call returns."""
    at: ast.AST | None = facts.parent(call)
    while isinstance(at, ast.Attribute):
        yield _Step(at.attr, None)
        at = facts.parent(at)
        at = facts.parent(at) if isinstance(at, ast.Call) else None


def _is_transposed(value: ast.expr) -> bool:
    """Whether a value is not contiguous, most likely."""
    if isinstance(value, ast.Attribute):
        return value.attr in ("T", "mT", "H", "mH")
    return method_call(value, "t", "transpose", "permute", "swapaxes", "expand") is not None


def _moved(
    facts: FileFacts, value: ast.expr, clone: ast.Call, move: ast.Call, call: ast.Call, is_tensor: bool
) -> Iterator[Finding]:
    """A clone before or behind a move."""
    look = looks_like_tensor(facts, value)
    if look == "likely" and is_tensor:
        look = "known"
    if move is call and called_name(move) in ("long", "int"):
        return  # mostly integers already
    if called_name(move) == "float" and not _NO_FLOATS.search(facts.source.segment(value).lower()):
        return  # it is of that dtype, most likely
    if not look or _waits_not(move) or _stays(facts, value, move):
        return
    if keyword(move, "copy") is not None:
        if not is_true(keyword(move, "copy")):
            return
        fix = _fix([without_method(facts.source, clone)], look)
        yield facts.source.finding(
            CODE, "`to(…, copy=True)` has made a copy: the clone is another one", call, fix=fix
        )
        return
    fix = _fix([without_method(facts.source, clone), *_with_copy(facts, move)], look)
    name = called_name(move)
    wanted = _wanted(facts, move) or "to(…, copy=True)"
    message = f"`clone()` and `{name}(…)` may copy twice: `{wanted}` copies once, on any device"
    yield facts.source.finding(CODE, message.replace("cpu(…)", "cpu()"), call, fix=fix)


def _fix(edits: list[Edit | None], look: str) -> Fix | None:
    made = [each for each in edits if each is not None]
    if len(made) < len(edits):
        return None
    note = "" if look == "known" else "where it is no tensor but an object with methods of these names"
    return Fix(tuple(made), safe=look == "known", note=note)


def _waits_not(move: ast.Call) -> bool:
    """Whether a move may still read its source later: then a clone keeps others from writing it meanwhile."""
    wanted = keyword(move, "non_blocking")
    if wanted is None and called_name(move) in ("to", "copy_"):
        wanted = next((each for each in move.args[1:] if isinstance(each, ast.Constant)), None)
    return wanted is not None and not (isinstance(wanted, ast.Constant) and wanted.value is False)


def _stays(facts: FileFacts, value: ast.expr, move: ast.Call) -> bool:
    """Whether it is known that the move has nothing to do: one clone, one copy."""
    own = path_of(strip_calls(value, "detach", "data")[0])
    if own is not None and len(move.args) == 1 and path_of(move.args[0]) in (f"{own}.device", f"{own}.dtype"):
        return True
    if len(move.args) == 1 and _is_made_as(facts, value, path_of(move.args[0])):
        return True
    before, after = facts.kind_of(value).device, facts.kind_of(move).device
    is_cast = called_name(move) in _DTYPES or any("float" in (path_of(each) or "") for each in move.args)
    return bool(before) and before == after and not is_cast and len(move.args) + len(move.keywords) <= 1


def _is_made_as(facts: FileFacts, value: ast.expr, wanted: str | None) -> bool:
    """Whether a tensor was made with this dtype: `x = torch.randn(3, dtype=torch.bfloat16)`."""
    bound = facts.bindings(value) if isinstance(value, ast.Name) else []
    made = bound[0].value if len(bound) == 1 else None
    return wanted is not None and isinstance(made, ast.Call) and path_of(keyword(made, "dtype")) == wanted


def _wanted(facts: FileFacts, move: ast.Call, more: str = "") -> str:
    """The method that moves and copies; nothing for a `to`, which keeps its own arguments."""
    name = called_name(move)
    if name == "cpu" and not move.args and not move.keywords:
        return f'to("cpu", copy=True{more})'
    if name == "cuda" and not move.args and not move.keywords:
        return f'to("cuda", copy=True{more})'
    if name in _DTYPES and facts.imports.get("torch") == "torch" and not move.args and not move.keywords:
        return f"to(torch.{_DTYPES[name]}, copy=True{more})"
    return ""


def _with_copy(facts: FileFacts, move: ast.Call, more: str = "") -> list[Edit | None]:
    wanted = _wanted(facts, move, more)
    if wanted:
        return [renamed_call(facts.source, move, wanted)]
    starred = any(isinstance(each, ast.Starred) for each in move.args) or any(
        not each.arg for each in move.keywords
    )
    if called_name(move) != "to" or starred or len(move.args) > 2 or not (move.args or move.keywords):
        return [None]
    return [with_argument(facts.source, move, f"copy=True{more}")]


def _array_copied(facts: FileFacts, steps: list[_Step], call: ast.Call) -> Iterator[Finding]:
    """`t.cpu().numpy().copy()`: the array is in C order."""
    while steps and steps[-1].name in _BETWEEN:
        steps = steps[:-1]
    if not steps or steps[-1].call is None:
        return
    before = steps[-1].call
    value = before.func.value if isinstance(before.func, ast.Attribute) else before
    name = steps[-1].name
    if name not in ("cpu", "clone", *_DTYPES) or not steps[-1].is_bare or facts.kind_of(value).device == "cpu":
        return
    copy = without_method(facts.source, call)
    if name == "clone":
        wanted = "clone(memory_format=torch.contiguous_format)"  # of a conjugate, `numpy` takes a clone alone
        renamed = renamed_call(facts.source, before, wanted) if facts.imports.get("torch") == "torch" else None
        fix = _fix([renamed, copy], "known")
        yield facts.source.finding(CODE, "the array copies what is a clone already", call, fix=fix)
        return
    more = ", memory_format=torch.contiguous_format"
    edits = _with_copy(facts, before, more) if facts.imports.get("torch") == "torch" else [None]
    message = f"`{name}()` and `copy()` may copy twice: `to(…, copy=True).numpy()` copies once, on any device"
    yield facts.source.finding(CODE, message, call, fix=_fix([copy, *edits], "known"))


def _made_contiguous(facts: FileFacts, value: ast.expr, first: ast.Call, call: ast.Call) -> Iterator[Finding]:
    look = looks_like_tensor(facts, value)
    if not look:
        return
    fix = None
    if facts.imports.get("torch") == "torch":
        wanted = "clone(memory_format=torch.contiguous_format)"
        fix = _fix([without_method(facts.source, first), renamed_call(facts.source, call, wanted)], look)
    message = "`contiguous()` and `clone()` copy twice what is not contiguous: give `clone` the `memory_format`"
    yield facts.source.finding(CODE, message, call, fix=fix)


def _cloned_for_nothing(facts: FileFacts, value: ast.expr, clone: ast.Call, call: ast.Call) -> Iterator[Finding]:
    look = looks_like_tensor(facts, value)
    if look:
        message = f"`{called_name(call)}()` copies: the clone before it is thrown away"
        yield facts.source.finding(CODE, message, call, fix=_fix([without_method(facts.source, clone)], look))


def _loaded(facts: FileFacts, call: ast.Call) -> Iterator[Finding]:
    """`module.load_state_dict(copy.deepcopy(state))`: loading copies the values. That of an optimizer does not."""
    given = call.args[0] if call.args else keyword(call, "state_dict")
    if not isinstance(given, ast.Call) or not isinstance(call.func, ast.Attribute) or not given.args:
        return
    if facts.resolve(given.func) not in ("copy.deepcopy", "deepcopy") or keyword(call, "assign") is not None:
        return
    module = call.func.value
    kind = facts.kind_of(module)
    if kind.name != "module":
        path = (path_of(module) or "").lower()
        last = path.rpartition(".")[2]
        source = method_call(given.args[0], "state_dict")
        other = (path_of(source) or "").lower()
        if kind.is_known or _NO_MODULES.search(last) or _NO_MODULES.search(other) or not _MODULES.search(last):
            return
    edits = unwrapped_call(facts.source, given)
    is_plain = kind.name == "module" and not _loads_in_its_own_way(facts, module)
    note = "" if is_plain else "where the class of this object keeps what it is given to load"
    fix = None if edits is None else Fix(edits, safe=is_plain, note=note)
    message = "`load_state_dict` copies the values into the module: the deep copy before it is thrown away"
    yield facts.source.finding(CODE, message, given, fix=fix)


def _loads_in_its_own_way(facts: FileFacts, module: ast.expr) -> bool:
    """Whether the class of a module, of this project, defines a `load_state_dict` of its own."""
    bound = facts.bindings(module) if isinstance(module, ast.Name) else []
    if isinstance(module, ast.Attribute):
        bound = facts.attribute_bindings(module)
    made = [each.value.func for each in bound if isinstance(each.value, ast.Call)]
    found = [facts.definition(each) for each in (*made, *(each.annotation for each in bound)) if each is not None]
    return any(
        each is not None
        and isinstance(each.scope.node, ast.ClassDef)
        and find_method(each.facts, each.scope, "load_state_dict") is not None
        for each in found
    )


def _copied_into(facts: FileFacts, call: ast.Call) -> Iterator[Finding]:
    """`a.copy_(b.clone())`, where the two cannot be parts of one memory that overlap."""
    if not call.args or not isinstance(call.func, ast.Attribute) or _waits_not(call):
        return
    given = call.args[0]
    while isinstance(given, ast.Call) and called_name(given) in ("detach", "clone") and not given.args:
        if called_name(given) == "clone":
            break
        given = given.func.value if isinstance(given.func, ast.Attribute) else given.args[0]
    cloned = method_call(given, "clone")
    if cloned is None or not isinstance(given, ast.Call) or given.args or given.keywords:
        return
    target = call.func.value
    if not are_apart(facts, target, cloned):
        return
    fix = _fix([without_method(facts.source, given)], "known")
    message = "`copy_` copies the values: the clone before it is thrown away"
    yield facts.source.finding(CODE, message, given, fix=fix)


def _operands(facts: FileFacts, scope: Scope, operator: ast.BinOp) -> Iterator[Finding]:
    """`t.data.clone() * w`: the operator makes its own result, and no gradient needs what it read."""
    if not isinstance(operator.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.Pow | ast.MatMult):
        return
    for side, other in ((operator.left, operator.right), (operator.right, operator.left)):
        value = method_call(side, "clone")
        if value is None or not isinstance(side, ast.Call) or side.args or side.keywords:
            continue
        if not _has_no_graph(facts, value):
            continue
        keeps = not isinstance(operator.op, ast.Add | ast.Sub) and not _has_no_graph(facts, other)
        if keeps and written_in(scope, value):
            continue
        edit = without_method(facts.source, side)
        note = "a gradient, where it is written before the backward that needs it" if keeps else ""
        fix = None if edit is None else Fix((edit,), safe=not keeps, note=note)
        message = "the operator makes a new tensor: the clone of its operand is thrown away"
        yield facts.source.finding(CODE, message, side, fix=fix)


def _has_no_graph(facts: FileFacts, node: ast.expr) -> bool:
    """Whether it is a tensor or number that hangs on no graph."""
    kind = facts.kind_of(node)
    if kind.name == "number":
        return True
    if (isinstance(node, ast.Attribute) and node.attr == "data") or method_call(node, "detach") is not None:
        return bool(looks_like_tensor(facts, node))
    return kind.is_tensor and (kind.graph is False or facts.is_without_graph(node))
