"""TC104: a copy to the host that was not waited for, read before anything waits for the device."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator

from ..findings import Finding
from ..inference.file_facts import FileFacts
from ..inference.flow import Flow
from ..inference.nodes import arguments, assigned, called_name, is_true, keyword, path_of, strip_calls, walk
from ..inference.scopes import Scope

CODE = "TC104"
NEEDS = ("non_blocking=True",)

_WAITS = (
    "synchronize",
    "query",
    "wait",
    "wait_stream",
    "wait_event",
    "barrier",
    "result",
    "join",
    "wait_until_finished",
)
_BLOCKING = ("item", "tolist", "cpu")
_COUNTS = ("nonzero", "unique", "unique_consecutive", "masked_select", "argwhere")
"""Wait for the device, to know how large their result is."""
_MOST_BINDINGS = 10  # of an index that may be a mask
_PUTS_IN = ("append", "extend", "insert", "appendleft")
_READS = frozenset(
    """
    item tolist sum mean max min any all argmax argmin nonzero unique sort topk std var norm eq ne lt le gt ge
    equal softmax sigmoid exp log clone copy astype round masked_select index_select
    """.split()
)
_READ_BY = ("print", "int", "float", "bool", "sorted", "sum", "max", "min", "str", "repr", "any", "all")
_SAME_MEMORY = frozenset(
    "numpy view reshape squeeze unsqueeze flatten detach contiguous permute float double half bool long int".split()
)
"""What reads nothing, or nothing where the type is right already."""
_JOINS = ("cat", "stack", "vstack", "hstack", "concatenate", "equal", "allclose", "where", "save")
_MASK = re.compile(r"(^|_)mask(ed)?(_|$)")


@dataclasses.dataclass(frozen=True, slots=True)
class Pending:
    """A place that holds a copy which may not have arrived, and the call that made it.

    Attributes:
        kind: `tensor`; `array`, which is read when something goes through it; or `list`, of such tensors or arrays.
    """

    place: str
    copy: ast.Call
    kind: str = "tensor"


class _HostCopies(Flow[Pending]):
    """Follows host copies to the first read."""

    def __init__(self, facts: FileFacts, scope: Scope) -> None:
        super().__init__()
        self.facts = facts
        self.scope = scope
        self.found: dict[ast.AST, ast.Call] = {}

    def visit(self, node: ast.AST, facts: frozenset[Pending]) -> frozenset[Pending]:
        """Waits and reads, in the order in which they are evaluated; then what is bound."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            return facts
        told = node.annotation if isinstance(node, ast.AnnAssign) else None
        annotation = {*walk(told)} if told is not None else ()
        for each in reversed(list(walk(node))):
            if each not in annotation:
                facts = self._evaluated(each, facts)
        above = self.facts.parent(node)
        if facts and _waits_on_a_gpu(above, node):
            return frozenset()
        if isinstance(above, ast.For) and above.iter is node:
            self._gone_through(above.iter, facts)
        made = [
            (place, self._pending(value, facts), self._kind(value, facts))
            for target, value in _bound(node)
            if (place := path_of(target)) is not None
        ]
        for each in walk(node):
            if isinstance(each, ast.Name | ast.Attribute | ast.Subscript) and type(each.ctx) is ast.Store:
                place = path_of(each)
                facts = frozenset(one for one in facts if one.place != place)
        for place, copies, kind in made:
            facts |= {Pending(place, call, kind) for call in copies}
        return facts

    def _pending(self, node: ast.expr, facts: frozenset[Pending], *, but: str = "") -> frozenset[ast.Call]:
        """The copies that a value may still wait for: it is one, or shares its memory; not if it is of a kind."""
        while (inner := _of_which_it_is_a_view(node)) is not None:
            node = inner
        if isinstance(node, ast.Call) and _is_host_copy(self.facts, node):
            return frozenset({node})
        if isinstance(node, ast.Subscript) and path_of(node) is None:
            node = node.value
        path = path_of(node)
        return frozenset(
            each.copy
            for each in facts
            if path is not None and _is_part(path, each.place) and not (each.kind == but and path == each.place)
        )

    def _kind(self, node: ast.expr, facts: frozenset[Pending]) -> str:
        """Whether what waits for a copy is an array of NumPy around it, a list of some, or the tensor."""
        while (inner := _of_which_it_is_a_view(node)) is not None:
            if isinstance(node, ast.Call) and called_name(node) == "numpy":
                return "array"
            node = inner
        path = path_of(node)
        kinds = {each.kind for each in facts if path is not None and path == each.place}
        return kinds.pop() if len(kinds) == 1 else "tensor"

    def _gone_through(self, iterable: ast.expr, facts: frozenset[Pending]) -> None:
        """What a loop or comprehension goes through: the elements of an array are read."""
        if isinstance(iterable, ast.Call) and called_name(iterable) == "enumerate" and iterable.args:
            iterable = iterable.args[0]
        if self._kind(iterable, facts) == "array":
            self._read([iterable], iterable, facts)

    def _evaluated(self, node: ast.AST, facts: frozenset[Pending]) -> frozenset[Pending]:
        match node:
            case ast.Call():
                return self._called(node, facts)
            case ast.Compare(left=left, comparators=others, ops=ops) if not isinstance(ops[0], ast.Is | ast.IsNot):
                self._read([left, *others], node, facts, but="list")
            case ast.BinOp(left=left, right=right):
                self._read([left, right], node, facts, but="list")
            case ast.FormattedValue(value=value):
                self._read([value], value, facts)
            case ast.If(test=value) | ast.While(test=value):
                self._read([value], node, facts, but="list")
            case ast.comprehension(iter=iterable):
                self._gone_through(iterable, facts)
            case ast.Subscript(value=of, slice=index, ctx=ast.Load()) if facts and _is_mask(self.facts, of, index):
                return frozenset()  # waits for the device: how much is left is known there
        return facts

    def _called(self, call: ast.Call, facts: frozenset[Pending]) -> frozenset[Pending]:
        name = called_name(call)
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        if name in _WAITS or "sync" in name.lower() or "wait" in name.lower():
            return frozenset()
        pending = self._pending(receiver, facts, but="list") if receiver is not None else frozenset[ast.Call]()
        if pending and name in _READS and receiver is not None:
            self._report(pending, call)
            return facts
        if name in _BLOCKING or (name in ("to", "copy_") and _is_blocking_host_copy(self.facts, call)):
            return frozenset()  # waits for the stream, and so for what was queued before
        dotted = self.facts.resolve(call.func)
        joins = dotted.startswith("torch.") and name in _JOINS
        if dotted.startswith("numpy.") or joins or (isinstance(call.func, ast.Name) and name in _READ_BY):
            given: list[ast.expr] = []
            for each in arguments(call):
                given += each.elts if isinstance(each, ast.List | ast.Tuple) else [each]
            self._read(given, call, facts)
            return facts
        if name in _COUNTS and not self._is_on_the_host(call):
            return frozenset()
        found = self.facts.definition(call.func)
        if found is not None and found.scope.is_function and self.facts.done_by(found).synchronises:
            return frozenset()
        place = path_of(receiver) if receiver is not None else None
        if place is None:
            return facts
        if name == "clear":
            return frozenset(each for each in facts if each.place != place)
        if name in _PUTS_IN and call.args and found is None:
            return self._put_in(call, place, facts)
        if name == "copy_" and _is_copy_into_host(self.facts, call):
            return facts | {Pending(place, call)}
        return facts

    def _is_on_the_host(self, call: ast.Call) -> bool:
        """Whether what a method is called of, or a function is given, is no tensor of a device."""
        of = call.func.value if isinstance(call.func, ast.Attribute) and not self.facts.resolve(call.func) else None
        given = of if of is not None else (call.args[0] if call.args else None)
        kind = self.facts.kind_of(given)
        return kind.device == "cpu" or (kind.is_known and not kind.is_tensor)

    def _put_in(self, call: ast.Call, place: str, facts: frozenset[Pending]) -> frozenset[Pending]:
        """After `outputs.append(x.to("cpu", non_blocking=True))`; `numbers.extend(array)` reads an array."""
        given = call.args[-1]
        copies = self._pending(given, facts)
        if called_name(call) == "extend" and self._kind(given, facts) == "array":
            self._report(copies, call)
            return facts
        return facts | {Pending(place, copy, "list") for copy in copies}

    def _read(self, nodes: list[ast.expr], at: ast.AST, facts: frozenset[Pending], *, but: str = "") -> None:
        for each in nodes:
            self._report(self._pending(each, facts, but=but), at)

    def _report(self, copies: frozenset[ast.Call], at: ast.AST) -> None:
        for copy in sorted(copies, key=lambda each: (each.lineno, each.col_offset), reverse=True):
            if copy not in self.found.values():
                self.found[at] = copy


def _waits_on_a_gpu(at: ast.AST | None, test: ast.AST) -> bool:
    """Whether this is the test of `if device.type == "cuda": torch.cuda.synchronize()`: elsewhere nothing waits."""
    if not isinstance(at, ast.If) or at.test is not test or "cuda" not in ast.unparse(at.test):
        return False
    return any(isinstance(each, ast.Call) and called_name(each) in _WAITS for one in at.body for each in walk(one))


def _bound(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target of an assignment with what it gets; those of `a, b = x, y` one by one."""
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    if isinstance(node, ast.Assign):
        yield from assigned(node)


def _of_which_it_is_a_view(node: ast.expr) -> ast.expr | None:
    """The tensor behind a method that reads nothing: `x` of `x.numpy()`, and of `list(x)`, which has its rows."""
    match node:
        case ast.Call(func=ast.Attribute(value=of, attr=name)) if name in _SAME_MEMORY:
            return of
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[of]):
            return of
    return None


def _is_part(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}[")


def _is_host_copy(facts: FileFacts, call: ast.Call) -> bool:
    """Whether it is `x.to("cpu", non_blocking=True)`, of what is not on the host already."""
    if not is_true(keyword(call, "non_blocking")) or not isinstance(call.func, ast.Attribute):
        return False
    if _is_given(facts, call.func.value) and not _is_waited_for_next(facts, call):
        return False
    if call.func.attr == "cpu":
        return facts.kind_of(call.func.value).device != "cpu"
    if call.func.attr != "to":
        return False
    target = call.args[0] if call.args else keyword(call, "device")
    return _is_cpu(facts, target) and facts.kind_of(call.func.value).device != "cpu"


def _is_given(facts: FileFacts, node: ast.expr) -> bool:
    """Whether a tensor is just a parameter, or an entry of something: it may lie on the host."""
    inner, steps = strip_calls(node, "detach", "data", "view", "reshape", "contiguous", "clone", "pop", "get")
    is_entry = isinstance(inner, ast.Subscript) or bool({"pop", "get"} & {*steps})
    while isinstance(inner, ast.Subscript):
        inner = inner.value
    if facts.kind_of(inner).device:
        return False
    if isinstance(inner, ast.Attribute):
        return is_entry
    bound = facts.bindings(inner) if isinstance(inner, ast.Name) else []
    before = [each for each in bound if getattr(each.node, "lineno", 0) < inner.lineno or each.how == "parameter"]
    return bool(before) and all(each.how in ("parameter", "element") for each in before)


def _is_waited_for_next(facts: FileFacts, call: ast.Call) -> bool:
    """Whether a parameter is copied, and the next statement waits for the device: it is on that, as it seems."""
    at = facts.statement_of(call)
    above = facts.parent(at) if at is not None else None
    block = getattr(above, "body", None)
    if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
        return False
    following = block[block.index(at) + 1 :] if isinstance(block, list) and at in block else []
    match following:
        case [ast.Expr(value=ast.Call() as waits), *_]:
            return called_name(waits) == "synchronize"
    return False


def _is_mask(facts: FileFacts, of: ast.expr, index: ast.expr) -> bool:
    """Whether a tensor that may be on a device is indexed by booleans: `x[x > 0]`, `x[~done]`, `x[mask]`."""
    kind = facts.kind_of(of)
    if kind.device == "cpu" or (kind.is_known and not kind.is_tensor):
        return False
    return not isinstance(of, ast.Tuple | ast.List | ast.Dict | ast.Constant) and _is_of_booleans(facts, index)


def _is_of_booleans(facts: FileFacts, index: ast.expr) -> bool:
    match index:
        case ast.Compare() | ast.UnaryOp(op=ast.Invert()) | ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
            return True
        case ast.Call():
            return called_name(index) == "bool"
        case ast.Name(id=name):
            bound = facts.bindings(index)
            made = [each.value for each in bound[:_MOST_BINDINGS] if each.value is not None]
            is_made = any(not isinstance(each, ast.Name) and _is_of_booleans(facts, each) for each in made)
            return is_made or _MASK.search(name.lower()) is not None
    return False


def _is_cpu(facts: FileFacts, node: ast.expr | None) -> bool:
    if isinstance(node, ast.Call) and facts.resolve(node.func) == "torch.device" and node.args:
        node = node.args[0]
    if isinstance(node, ast.Name):
        bound = facts.bindings(node)
        if len(bound) == 1 and bound[0].value is not None and not isinstance(bound[0].value, ast.Name):
            return _is_cpu(facts, bound[0].value)
    return isinstance(node, ast.Constant) and node.value == "cpu"


def _is_copy_into_host(facts: FileFacts, call: ast.Call) -> bool:
    """Whether `buffer.copy_(x, non_blocking=True)` writes a pinned buffer of this function."""
    if not is_true(keyword(call, "non_blocking")) or not isinstance(call.func, ast.Attribute) or not call.args:
        return False
    buffer = call.func.value
    bound = facts.bindings(buffer) if isinstance(buffer, ast.Name) else []
    pinned = len(bound) == 1 and any(
        is_true(keyword(each, "pin_memory")) or called_name(each) == "pin_memory"
        for each in ast.walk(bound[0].value or ast.Constant(0))
        if isinstance(each, ast.Call)
    )
    return pinned and facts.kind_of(call.args[0]).device != "cpu"


def _is_blocking_host_copy(facts: FileFacts, call: ast.Call) -> bool:
    waits_not = keyword(call, "non_blocking")
    if waits_not is not None and not (isinstance(waits_not, ast.Constant) and waits_not.value is False):
        return False
    return _is_cpu(facts, call.args[0] if call.args else keyword(call, "device"))


def check(facts: FileFacts) -> Iterator[Finding]:
    """Reads of host copies that may not have arrived."""
    for scope in facts.functions:
        if not any(is_true(keyword(call, "non_blocking")) for call in scope.nodes(ast.Call)):
            continue
        flow = _HostCopies(facts, scope)
        flow.run(scope.body)
        for read, copy in flow.found.items():
            yield facts.source.finding(
                CODE,
                f"read before the copy of line {copy.lineno} has arrived: `non_blocking=True` to the host is not "
                "waited for; synchronize before, or leave it out",
                read if isinstance(read, ast.expr | ast.stmt) else copy,
                also=[("copied here", copy.lineno)],
            )
