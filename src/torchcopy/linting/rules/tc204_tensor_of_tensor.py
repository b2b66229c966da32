"""TC204: `torch.tensor(t)` and `x.new_tensor(t)` of what is known to be a tensor."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..findings import Finding, Fix
from ..inference.file_facts import FileFacts
from ..inference.nodes import called_name, is_true, path_of, root_of, walk
from ..inference.scopes import Scope
from ..inference.values.elements import container_of

CODE = "TC204"
NEEDS = ("tensor(",)

_MOST_BINDINGS = 10  # of a name, that are looked at
_ASKS = ("isinstance", "is_tensor", "hasattr", "issubclass", "type", "callable")
_TENSOR_ATTRIBUTES = frozenset(
    """
    device size dim numel unsqueeze squeeze view detach requires_grad is_cuda cpu cuda clone to float long permute
    new_zeros new_ones type_as contiguous sum mean
    """.split()
)
_SUBCLASSES = re.compile(r"as_subclass|__torch_function__|tv_tensors|fastai|\bclass \w+\([^)]*\bTensor\b")
"""Signs that a file has to do with subclasses of `Tensor`: `torch.tensor` makes plain ones of them."""


def check(facts: FileFacts) -> Iterator[Finding]:
    """Such calls, but for those where the program itself asks whether it has a tensor."""
    text = facts.source.text
    if "torch.tensor(" not in text and "new_tensor(" not in text and "tensor" not in facts.imports:
        return
    is_plain = not _SUBCLASSES.search(text)
    for scope in facts.scopes:
        for call in scope.nodes(ast.Call):
            name = called_name(call)
            if name == "new_tensor":
                is_it = isinstance(call.func, ast.Attribute) and not facts.resolve(call.func)
            else:
                is_it = name == "tensor" and facts.resolve(call.func) == "torch.tensor"
            if not is_it or len(call.args) != 1:
                continue
            given = call.args[0]
            if not facts.kind_of(given).is_tensor or _is_asked(facts, scope, given):
                continue
            if _is_used_as_said(facts, scope, given) and not _may_be_no_tensor(facts, call, given):
                wanted = _instead(facts, call, name)
                what = f"`{wanted}`" if wanted and len(wanted) < 70 else "`detach().clone()` or `to(…, copy=True)`"
                message = f"what `{name}` is given is a tensor already, which it warns of and copies: {what}"
                note = "" if is_plain else "of a subclass of `Tensor`, the copy is one too"
                fix = Fix((facts.source.replace(call, wanted),), safe=is_plain, note=note) if wanted else None
                yield facts.source.finding(CODE, message, call, fix=fix)


def _is_asked(facts: FileFacts, scope: Scope, node: ast.expr) -> bool:
    """Whether the function tests what the value is: then an annotation tells half of it."""
    made_of = [bound.value for bound in facts.bindings(node) if bound.value] if isinstance(node, ast.Name) else []
    parts = [each for whole in (node, *made_of[:_MOST_BINDINGS]) for each in walk(whole)]
    texts = {facts.source.segment(each) for each in parts if isinstance(each, ast.expr)}
    at: Scope | None = scope
    while at is not None:
        for call in at.nodes(ast.Call):
            if called_name(call) in _ASKS and call.args and facts.source.segment(call.args[0]) in texts:
                return True
        at = at.parent
    return any(isinstance(each, ast.Try) for each in facts.above(node))


def _is_used_as_said(facts: FileFacts, scope: Scope, node: ast.expr) -> bool:
    """Whether a parameter is used as a tensor before, if it is one: some annotations promise too much."""
    for name in walk(node):
        if not isinstance(name, ast.Name) or not facts.kind_of(name).is_tensor:
            continue
        if not any(each.how == "parameter" for each in facts.bindings(name)):
            continue
        place = (node.lineno, node.col_offset)
        if not any(
            each.attr in _TENSOR_ATTRIBUTES and isinstance(each.value, ast.Name) and each.value.id == name.id
            for each in scope.nodes(ast.Attribute)
            if (each.lineno, each.col_offset) < place or each.lineno == place[0]
        ):
            return False
    return True


def _may_be_no_tensor(facts: FileFacts, call: ast.Call, node: ast.expr) -> bool:
    """Whether what tells of a tensor is weak: the call itself, an annotation of a dict, other entries."""
    return _gets_what_it_is_given(facts, call, node) or any(
        _is_entry_of_given(facts, each) or _is_in_rewritten_dict(facts, call, each)
        for each in _sources(facts, node)
    )


def _gets_what_it_is_given(facts: FileFacts, call: ast.Call, node: ast.expr) -> bool:
    """Whether the tensor is known from this very call: `self.x = torch.tensor(self.x)`."""
    at = facts.statement_of(call)
    place = path_of(node) if isinstance(node, ast.Attribute | ast.Subscript) else None
    return place is not None and isinstance(at, ast.Assign) and place in map(path_of, at.targets)


def _sources(facts: FileFacts, node: ast.expr) -> Iterator[ast.expr]:
    """The entry of a dict that a value is, by itself or by a name, and what a loop takes it from."""
    if isinstance(node, ast.Subscript):
        yield node
    if isinstance(node, ast.Name):
        yield from (each.value for each in facts.bindings(node) if isinstance(each.value, ast.Subscript))
        container = container_of(facts, node)
        if container is not None:
            yield container


def _is_in_rewritten_dict(facts: FileFacts, call: ast.Call, container: ast.expr) -> bool:
    """Whether a loop takes a value from a dict, entries of which the function writes anew."""
    place = None if isinstance(container, ast.Subscript) else path_of(container)
    written = facts.scope_of(call).nodes(ast.Subscript)
    return place is not None and any(
        path_of(each.value) == place and type(each.ctx) is ast.Store for each in written
    )


def _is_entry_of_given(facts: FileFacts, node: ast.expr) -> bool:
    """Whether an entry's kind is only an annotation's word, or that of other entries of a dict."""
    root = root_of(node)
    if not (isinstance(node, ast.Subscript) and isinstance(root, ast.Name)) or facts.kind_of(root).is_tensor:
        return False
    bound = facts.bindings(root)
    keys = {
        key.value
        for each in bound
        if isinstance(each.value, ast.Dict)
        for key in each.value.keys
        if isinstance(key, ast.Constant)
    }
    container = container_of(facts, root)
    if isinstance(container, ast.Name):
        bound = facts.bindings(container)
    is_another = bool(keys) and isinstance(node.slice, ast.Constant) and node.slice.value not in keys
    return is_another or any(each.how == "parameter" for each in bound)


def _instead(facts: FileFacts, call: ast.Call, name: str) -> str:
    """The same copy by methods of the tensor; nothing where that cannot be said."""
    source = facts.source
    if isinstance(call.args[0], ast.Call) and isinstance(call.args[0].func, ast.Name):
        return ""  # `sum(…)` of nothing is 0
    text = source.text[source.start(call) : source.end(call)]
    if "#" in text or any(each.arg is None for each in call.keywords):
        return ""
    given = call.args[0]
    written = source.segment(given)
    if not isinstance(given, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        written = f"({written})"
    options = {each.arg: each.value for each in call.keywords if each.arg is not None}
    wants_gradient = options.pop("requires_grad", None)
    if name == "new_tensor" or not options.keys() <= {"dtype", "device"}:
        return ""  # in `new_tensor` the device is that of the other tensor
    if any(isinstance(each, ast.Constant) and each.value is None for each in options.values()):
        return ""
    moved = "".join(f"{key}={source.segment(value)}, " for key, value in options.items())
    made = f"{written}.detach().to({moved}copy=True)" if options else f"{written}.detach().clone()"
    if wants_gradient is not None:
        if not is_true(wants_gradient):
            return "" if not isinstance(wants_gradient, ast.Constant) else made
        made += ".requires_grad_()"
    return made
