"""Whether a value is a tensor, where no annotation or constructor says so: by what is done with it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Literal

from ..nodes import called_name, path_of

if TYPE_CHECKING:
    from ..file_facts import FileFacts

Look = Literal["known", "likely", ""]

_TENSOR_STEPS = frozenset(
    """
    detach contiguous unsqueeze permute masked_fill expand_as type_as requires_grad_ detach_ numpy data grad
    unflatten log_softmax new_zeros new_ones new_full new_tensor new_empty
    """.split()
)
_TENSOR_ATTRIBUTES = frozenset("weight bias running_mean running_var weight_ih_l0 weight_hh_l0".split())
_OTHER_CLASSES = (
    "tensordict",
    "TensorDict",
    "torch_geometric",
    "torchrl",
    "dgl",
    "pytorch3d",
    "detectron2",
    "Instances",
    "oneflow",
    "paddle",
    "jittor",
    "mindspore",
)
_OTHER_THINGS = re.compile(
    r"(^|_)(batch|data|td|graph|boxes|box|instances|model|net|network|actor|critic|policy|agent|module|encoder|"
    r"decoder|layer|block|optimizer|loader|dataset|tensordict|meshes|mesh|mesh_?list|transforms?|obj|state|trajectory|"
    r"sample|example|config|cfg|params|options|process|cache|queue|metrics?|kernel|likelihood|prior|dist|distribution|"
    r"simulator|env|self|cls|repo|session|other|cam|camera|cameras|pose|poses|structures?|atoms|molecules?|estimator)\d*$",
    re.IGNORECASE,
)


def looks_like_tensor(facts: FileFacts, node: ast.expr) -> Look:
    """`known`: it is a tensor; `likely`: nothing speaks against it; nothing: it may well be something else."""
    kind = facts.kind_of(node)
    if kind.is_tensor:
        return "known"
    if kind.is_known:
        return ""
    if _is_asked(facts, node):
        return "known"
    at: ast.AST = node
    while True:
        match at:
            case ast.Call(func=ast.Attribute(attr="detach" | "contiguous", value=below)) if _holds_tensors(below):
                return ""
            case ast.Call(func=ast.Attribute(attr=name, value=below)) if name in _TENSOR_STEPS:
                return "" if _has_other_classes(facts) else "known"
            case ast.Call(func=ast.Attribute(attr="cpu" | "cuda" | "to" | "float" | "clone", value=below)):
                at = below
            case ast.Attribute(attr=name, value=below) if name in _TENSOR_STEPS and not facts.resolve(at):
                return "known" if name == "grad" or _is_parameter_like(facts, below) else "likely"
            case ast.Attribute(attr=name) if name in _TENSOR_ATTRIBUTES:
                return "likely"
            case ast.Subscript(value=below):
                at = below
                if facts.kind_of(at).is_tensor:
                    return "known"
            case ast.BinOp():
                return "" if _has_other_classes(facts) else "likely"
            case _:
                break
    return "likely" if _is_plain(facts, at) else ""


def _holds_tensors(node: ast.AST) -> bool:
    """Whether a name is that of something made of tensors, which may have such methods too: a graph, a batch."""
    last = (path_of(node) or "").rpartition(".")[2]
    return bool(_OTHER_THINGS.search(last) or re.match(r"(data|batch|graph|sample)(_|$)", last))


def _is_asked(facts: FileFacts, node: ast.expr) -> bool:
    """Whether an `if` around has asked `isinstance(x, torch.Tensor)`."""
    written = facts.source.segment(node)
    below: ast.AST = node
    for at in facts.above(node):
        if isinstance(at, ast.If | ast.IfExp) and isinstance(at.test, ast.Call) and len(at.test.args) == 2:
            body = at.body if isinstance(at.body, list) else [at.body]
            asked, what = at.test.args
            if below in body and called_name(at.test) == "isinstance" and facts.source.segment(asked) == written:
                return (path_of(what) or "").rpartition(".")[2] == "Tensor"
        below = at
    return False


def _is_plain(facts: FileFacts, node: ast.AST) -> bool:
    """Whether a name or attribute does not sound like one of the other things that have `clone` and `to`."""
    path = path_of(node)
    if path is None or _has_other_classes(facts):
        return False
    last = path.rpartition(".")[2].partition("[")[0]
    if _OTHER_THINGS.search(last):
        return False
    bound = facts.bindings(node) if isinstance(node, ast.Name) else []
    if isinstance(node, ast.Attribute):
        bound = facts.attribute_bindings(node)
    for each in bound:
        if each.annotation is not None:
            return False  # of a class that is not known
        if each.how == "value" and isinstance(each.value, ast.Call):
            made = path_of(each.value.func) or ""
            if made.rpartition(".")[2][:1].isupper():
                return False
    return True


def _is_parameter_like(facts: FileFacts, node: ast.expr) -> bool:
    """Whether `.data` of this is a tensor's: `self.weight.data`, `param.data`."""
    if facts.kind_of(node).is_tensor:
        return True
    last = (path_of(node) or "").rpartition(".")[2]
    return last in _TENSOR_ATTRIBUTES or bool(re.fullmatch(r"p|param|parameter|.*_param|.*_weight|.*_bias", last))


def _has_other_classes(facts: FileFacts) -> bool:
    text = facts.source.text
    return any(word in text for word in _OTHER_CLASSES)
