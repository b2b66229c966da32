"""TC106: a tensor and an array on one memory; one of them is written, and the other one used as if it were not.

A buffer that is made empty and filled through its other name is meant so, and is not reported.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

from ..findings import Finding
from ..inference.file_facts import FileFacts
from ..inference.flow import Flow
from ..inference.nodes import called_name, is_in_place, method_call, path_of, strip_calls, walk
from ..inference.scopes import Binding, Scope
from ..inference.weights.parameter_writes import written_module
from ..inference.weights.training import updates

CODE = "TC106"
NEEDS = ("from_numpy(", ".numpy()", "as_tensor(")

_SHARES = ("torch.from_numpy", "torch.as_tensor")
_WRITES_ARRAY = ("fill", "sort", "partition", "put", "itemset")
_NUMPY_WRITES = ("numpy.copyto", "numpy.random.shuffle", "random.shuffle", "numpy.put", "numpy.place")
_EMPTY = frozenset(
    "zeros empty ones full zeros_like empty_like ones_like full_like memmap new_zeros new_empty".split()
)
_KEEPS = ("append", "extend")


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """Two places on one memory.

    Attributes:
        first: the one that was there before.
        second: the one that was made of it.
        node: where that was done.
        is_parameter: whether an optimizer may write the first.
        written: which of them was written since, `both` by a training of the module.
        line: of the write.
    """

    first: str
    second: str
    node: ast.expr
    is_parameter: bool = False
    written: str = ""
    line: int = 0


class _SharedMemory(Flow[Pair]):
    """Follows tensors and arrays on one memory through a function."""

    def __init__(self, facts: FileFacts, scope: Scope) -> None:
        super().__init__()
        self.facts = facts
        self.scope = scope
        self.found: dict[ast.expr, tuple[Pair, ast.AST]] = {}

    def visit(self, node: ast.AST, facts: frozenset[Pair]) -> frozenset[Pair]:
        """Reads of what was written under its other name, then writes, then what is bound."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            return facts
        if facts:
            self._reads(node, facts)
            for each in walk(node):
                place = _written(self.facts, each)
                if place is not None:
                    facts = self._mark(facts, place, getattr(each, "lineno", 0))
                if isinstance(each, ast.Call):
                    facts = self._trained(each, facts)
        made: list[Pair] = []
        if isinstance(node, ast.Assign) and (second := path_of(node.targets[0])) is not None:
            made = _shared(self.facts, second, node.value)
        for each in walk(node):
            if isinstance(each, ast.Name | ast.Attribute) and type(each.ctx) is ast.Store:
                if isinstance(node, ast.AugAssign) and each is node.target:
                    continue
                path = path_of(each)
                facts = frozenset(one for one in facts if path not in (one.first, one.second))
        return facts | frozenset(each for each in made if each.first != each.second)

    def _mark(self, facts: frozenset[Pair], place: str, line: int) -> frozenset[Pair]:
        return frozenset(
            dataclasses.replace(each, written=place, line=line)
            if place in (each.first, each.second) and not each.written
            else each
            for each in facts
        )

    def _trained(self, call: ast.Call, facts: frozenset[Pair]) -> frozenset[Pair]:
        found: set[Pair] = set()
        for each in facts:
            module = each.first.rpartition(".")[0]
            is_free = not each.written and module and each.is_parameter
            if is_free and (updates(self.facts, call, module) or written_module(self.facts, call) == module):
                found.add(dataclasses.replace(each, written=each.first, line=call.lineno))
            else:
                found.add(each)
        return frozenset(found)

    def _reads(self, node: ast.AST, facts: frozenset[Pair]) -> None:
        written = sorted((each for each in facts if each.written), key=lambda each: each.line)
        if not written:
            return
        for each in walk(node):
            if not isinstance(each, ast.Name | ast.Attribute) or type(each.ctx) is not ast.Load:
                continue
            path = path_of(each) if not _is_of_comprehension(self.facts, each) else None
            for pair in written:
                other = pair.second if pair.written == pair.first else pair.first
                if path == other and not _is_harmless(self.facts, each) and not self._is_only_written(pair):
                    self.found.setdefault(pair.node, (pair, each))

    def _is_only_written(self, pair: Pair) -> bool:
        """Whether the second name is there to write the first through it, and nothing else is done with it."""
        nodes: list[ast.Name | ast.Attribute] = [*self.scope.nodes(ast.Name), *self.scope.nodes(ast.Attribute)]
        reads = [each for each in nodes if type(each.ctx) is ast.Load and path_of(each) == pair.second]
        return pair.written == pair.second and all(_is_harmless(self.facts, each) for each in reads)


def _is_of_comprehension(facts: FileFacts, node: ast.expr) -> bool:
    """Whether a name is that of a comprehension around it: another thing of the same name."""
    bound = facts.bindings(node) if isinstance(node, ast.Name) else []
    return len(bound) == 1 and isinstance(facts.parent(bound[0].node), ast.comprehension)


def _is_harmless(facts: FileFacts, node: ast.expr) -> bool:
    """Whether a read asks only for what a write does not change, or writes itself."""
    above = facts.parent(node)
    if isinstance(above, ast.Attribute):
        return above.attr in ("shape", "dtype", "size", "ndim", "device", "is_cuda", "numel", "dim")
    if isinstance(above, ast.Subscript) and above.value is node:
        return type(above.ctx) is ast.Store
    return isinstance(above, ast.Call) and called_name(above) == "len"


def _shared(facts: FileFacts, second: str, value: ast.expr) -> list[Pair]:
    """The pair that an assignment makes: `t = torch.from_numpy(a)`, `a = t.detach().numpy()`."""
    inner, methods = strip_calls(value, "detach", "view", "reshape", "squeeze", "unsqueeze", "numpy", "data", "cpu")
    of: ast.expr | None = None
    if "numpy" in methods:
        kind = facts.kind_of(inner)
        on_gpu = "cpu" in methods and kind.device != "cpu"
        of = inner if kind.is_tensor and not on_gpu else None
    elif isinstance(inner, ast.Call) and facts.resolve(inner.func) in _SHARES and inner.args:
        given = inner.args[0]
        keeps_type = facts.resolve(inner.func) == "torch.from_numpy" or not (inner.keywords or inner.args[1:])
        of = given if keeps_type and facts.kind_of(given).name == "ndarray" and not methods else None
    first = path_of(of)
    if first is None or of is None or _is_buffer(facts, of):
        return []
    return [Pair(first, second, value, facts.kind_of(of).name == "parameter")]


def _is_buffer(facts: FileFacts, node: ast.expr) -> bool:
    """Whether it was made without values: to be filled, under whichever name."""
    if isinstance(node, ast.Name):
        bound: list[Binding] = facts.bindings(node)
    elif isinstance(node, ast.Attribute):
        bound = facts.attribute_bindings(node)
    else:
        return False
    return any(isinstance(each.value, ast.Call) and called_name(each.value) in _EMPTY for each in bound)


def _written(facts: FileFacts, node: ast.AST) -> str | None:
    """The place that a node writes in place."""
    match node:
        case ast.Subscript(value=value) if type(node.ctx) is ast.Store:
            return path_of(value)
        case ast.AugAssign(target=ast.Name() | ast.Attribute() as target):
            return path_of(target)
        case ast.AugAssign(target=ast.Subscript(value=value)):
            return path_of(value)
        case ast.Call(func=ast.Attribute(value=value, attr=name)):
            if facts.resolve(node.func) in _NUMPY_WRITES and node.args:
                return path_of(node.args[0])
            if is_in_place(name) or name in _WRITES_ARRAY:
                inner, _ = strip_calls(value, "data", "detach")
                return path_of(inner)
    return None


def check(facts: FileFacts) -> Iterator[Finding]:
    """Tensors and arrays of one memory where a write to one reaches the other."""
    for scope in facts.functions:
        if not scope.body or not any(_may_share(facts, node) for node in scope.nodes(ast.Assign)):
            yield from _listed(facts, scope)
            continue
        flow = _SharedMemory(facts, scope)
        flow.run(scope.body)
        for pair, read in flow.found.values():
            line = getattr(read, "lineno", 0)
            other = pair.second if pair.written == pair.first else pair.first
            yield facts.source.finding(
                CODE,
                f"`{pair.second}` and `{pair.first}` share their memory: line {pair.line} writes `{pair.written}`, "
                f"and line {line} reads `{other}`; copy here",
                pair.node,
                also=[("written here", pair.line), ("read here", line)],
            )
        yield from _listed(facts, scope)


def _may_share(facts: FileFacts, node: ast.Assign) -> bool:
    second = path_of(node.targets[0])
    return second is not None and bool(_shared(facts, second, node.value))


def _listed(facts: FileFacts, scope: Scope) -> Iterator[Finding]:
    """`kept.append(t.numpy())` in a loop that writes `t` in place: all that is kept is the last."""
    for call in scope.nodes(ast.Call):
        if called_name(call) not in _KEEPS or len(call.args) != 1 or method_call(call, *_KEEPS) is None:
            continue
        pair = _listed_memory(facts, call.args[0])
        loops = facts.loops(call)
        if pair is None or not loops:
            continue
        for node in walk(loops[0]):
            place = _written(facts, node)
            if place == pair and not _is_rebound(facts, scope, pair, loops[0]):
                line = getattr(node, "lineno", 0)
                yield facts.source.finding(
                    CODE,
                    f"all that is kept shares the memory of `{pair}`, which line {line} writes in each round: "
                    "keep a copy",
                    call.args[0],
                    also=[("written here", line)],
                )
                break


def _listed_memory(facts: FileFacts, node: ast.expr) -> str | None:
    inner, methods = strip_calls(node, "detach", "numpy", "data")
    if "numpy" in methods:
        return path_of(inner) if facts.kind_of(inner).is_tensor else None
    if isinstance(inner, ast.Call) and facts.resolve(inner.func) in _SHARES and len(inner.args) == 1:
        kind = facts.kind_of(inner.args[0])
        is_array = kind.name == "ndarray" or (not kind.is_known and facts.resolve(inner.func) == _SHARES[0])
        return path_of(inner.args[0]) if is_array else None  # `from_numpy` takes nothing else
    return None


def _is_rebound(facts: FileFacts, scope: Scope, place: str, loop: ast.stmt) -> bool:
    """Whether the place is another tensor or array in each round."""
    bound = facts.bindings_of_path(scope, place)
    return any(each.how != "augmented" and loop in facts.loops(each.node) for each in bound)
