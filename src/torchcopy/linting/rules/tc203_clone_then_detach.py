"""TC203: `t.clone().detach()`, where `t.detach().clone()` records nothing."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator

from ..findings import Edit, Finding, Fix
from ..inference.file_facts import FileFacts
from ..inference.nodes import arguments, called_name, keyword, method_call, path_of
from ..inference.scopes import Scope
from ..inference.values.looks import looks_like_tensor
from ..source import Source

CODE = "TC203"
NEEDS = (".clone",)
GIVES_WAY_TO = ("TC202",)  # `x.clone().detach().to(d)` becomes `x.detach().to(d, copy=True)`

_NO_GRADIENT = re.compile(
    r"(^|[._])(labels?|targets?|y|(item_?)?ids?(_seq)?|idx|inds?|index|indices|masks?|lengths?|counts?|seq_?len|perms?|"
    r"d_p|x_(train|test|val)|(train|test|val)_(x|data)|strides?|shapes?|sizes?|(time_?)?steps?|actions?|rewards?|dones?|obs|observations?|throughputs?|queue|"
    r"(\w+_)?n?ids?|confusion(_matrix)?|(\w+_)?bank)\d*$"
    r"|(^|[._])(\w+_)?(grads?|gradients?|grad_\w+|(recv_?)?buf(fer)?s?|state_?dict|checkpoint)([._]|$)"
)
"""Names of integers, observations, gradients and what was received or loaded: none of them hangs on a graph."""

_LATEST = 20  # bindings of a name that are looked at
_INTEGER_CASTS = ("long", "int", "short", "byte", "bool", "char", "argmax", "argmin", "argsort", "nonzero")
_INTEGER_TYPES = frozenset("long int int8 int16 int32 int64 uint8 short bool".split())


def check(facts: FileFacts) -> Iterator[Finding]:
    """Finds the two calls in that order, but not where no graph is recorded anyway."""
    source = facts.source
    if ".detach" not in source.text:
        return
    for scope in facts.scopes:
        for outer in scope.nodes(ast.Call):
            match outer:
                case ast.Call(
                    func=ast.Attribute(
                        attr="detach",
                        value=ast.Call(func=ast.Attribute(attr="clone", value=tensor)) as inner,
                    ),
                    args=[],
                    keywords=[],
                ):
                    is_function = bool(facts.resolve(inner.func))  # `torch.clone(t)`
                    if is_function:
                        if not inner.args:
                            continue
                        tensor = inner.args[0]
                    if facts.is_without_graph(outer) or _in_function(scope) or _has_no_graph(facts, tensor):
                        continue
                    message = "`clone().detach()` records a node for nothing: detach first"
                    is_tensor = _is_no_other_thing(facts, tensor)
                    fix = None if is_function else _swapped(source, inner, outer, is_tensor)
                    yield source.finding(CODE, message, outer, fix=fix)


def _has_no_graph(facts: FileFacts, tensor: ast.expr) -> bool:
    """Whether no gradient flows to a value: by its kind, as `.data` or a buffer, or because it holds integers."""
    gets_gradient = isinstance(tensor, ast.Name) and tensor.id in _given_gradients(facts.source.text)
    if facts.kind_of(tensor).graph is False and not gets_gradient:
        return True
    if _wants_none(facts, tensor) or isinstance(tensor, ast.Compare):
        return True
    at = tensor
    while isinstance(at, ast.Subscript):
        at = at.value
    if isinstance(at, ast.Attribute) and at.attr in ("data", "grad"):
        return True
    written = facts.source.segment(at)
    if _NO_GRADIENT.search(written.lower()):
        return True
    for bound in facts.bindings(at)[-_LATEST:] if isinstance(at, ast.Name) else ():
        if _is_loaded(facts, bound.value) or _is_integer(bound.value):
            return True
        if bound.how == "element" and _NO_GRADIENT.search((path_of(bound.value) or "").lower()):
            return True
    if isinstance(at, ast.Name) and not gets_gradient and facts.kind_of(facts.last_value(at)).graph is False:
        return True
    name = at.id if isinstance(at, ast.Name) else at.attr if isinstance(at, ast.Attribute) else ""
    return bool(name) and name in _buffers(facts.source.text)


def _is_no_other_thing(facts: FileFacts, node: ast.expr) -> bool:
    """Whether it is a tensor, or raises: graphs and batches of other libraries have methods of these names too."""
    return facts.kind_of(node).name in ("number", "text", "list") or looks_like_tensor(facts, node) != ""


def _in_function(scope: Scope) -> bool:
    """Whether this is the forward or backward of a `torch.autograd.Function`: nothing is recorded there."""
    if scope.name not in ("forward", "backward") or scope.owner is None:
        return False
    bases = scope.owner.node.bases if isinstance(scope.owner.node, ast.ClassDef) else []
    return any((path_of(each) or "").rpartition(".")[2] in ("Function", "InplaceFunction") for each in bases)


@functools.lru_cache(maxsize=2)
def _given_gradients(text: str) -> frozenset[str]:
    """The names of what is made to require a gradient somewhere in a file."""
    return frozenset(re.findall(r"(\w+)\.requires_grad(?:_\(|\s*=)", text))


@functools.lru_cache(maxsize=2)
def _buffers(text: str) -> frozenset[str]:
    """The names under which a file registers buffers; a local name is often that of the buffer it stands for."""
    return frozenset(re.findall(r"register_buffer\(\s*(?:name=)?[\"'](\w+)[\"']", text))


def _is_integer(value: ast.expr | None) -> bool:
    """Whether a value was made one of integers: `x.long()`, `x.to(torch.int64)`."""
    if not isinstance(value, ast.Call):
        return False
    if method_call(value, *_INTEGER_CASTS) is not None:
        return True
    given = [path_of(each) or "" for each in arguments(value)]
    return any(each.startswith("torch.") and each.partition(".")[2] in _INTEGER_TYPES for each in given)


def _is_loaded(facts: FileFacts, value: ast.expr | None) -> bool:
    """Whether a value is taken out of a state or a file."""
    if value is None:
        return False
    written = facts.source.segment(value)
    return any(word in written for word in ("checkpoint", "state_dict", "torch.load("))


def _wants_none(facts: FileFacts, tensor: ast.expr) -> bool:
    """Whether it is put into `nn.Parameter(…, requires_grad=False)`: what it was is one too, most likely."""
    for at in facts.above(tensor):
        if isinstance(at, ast.Call) and called_name(at) == "Parameter":
            wanted = keyword(at, "requires_grad")
            return isinstance(wanted, ast.Constant) and wanted.value is False
    return False


def _swapped(source: Source, inner: ast.Call, outer: ast.Call, is_tensor: bool) -> Fix | None:
    """The two names with their arguments, each in the other's place; what stands between them stays."""
    clone = source.end(inner.func) - len("clone"), source.end(inner)
    detach = source.end(outer.func) - len("detach"), source.end(outer)
    first, second = source.text[slice(*clone)], source.text[slice(*detach)]
    if not (first.startswith("clone") and second.startswith("detach")):
        return None
    note = "" if is_tensor else "where it is no tensor but an object whose `detach` changes it"
    return Fix((Edit(*clone, second), Edit(*detach, first)), safe=is_tensor, note=note)
