"""The kind of what a call returns: a function of a library, a method of a tensor, a function of the project."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Literal

from ..nodes import keyword, path_of
from .kinds import (
    DETACHED,
    DICT,
    IN_GRAPH,
    LIST,
    MODULE,
    NDARRAY,
    NUMBER,
    OTHER,
    PARAMETER,
    SCHEDULER,
    TENSOR,
    TEXT,
    UNKNOWN,
    Kind,
)
from .torch_names import (
    DETACHED_METHODS,
    FROM_NOTHING,
    LOSS_FUNCTIONS,
    NUMBER_METHODS,
    NUMPY_ARRAYS,
    OF_TENSORS,
    OPTIMIZERS,
    SAME_GRAPH_METHODS,
    WRAPPERS,
)

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_BUILT_IN = {
    "float": NUMBER,
    "int": NUMBER,
    "len": NUMBER,
    "bool": NUMBER,
    "round": NUMBER,
    "ord": NUMBER,
    "str": TEXT,
    "repr": TEXT,
    "open": OTHER,
    "dict": DICT,
    "set": LIST,
}
_TUPLE_MODULES = ("LSTM", "GRU", "RNN", "MultiheadAttention", "LSTMCell")
_MODULE_METHODS = {
    "to",
    "cuda",
    "cpu",
    "eval",
    "train",
    "half",
    "float",
    "double",
    "requires_grad_",
    "apply",
    "xpu",
}
_LISTED_TENSORS = {"chunk", "split", "unbind", "tensor_split"}


def kind_of_call(facts: FileFacts, node: ast.Call) -> Kind:
    """The kind of what a call returns."""
    name = facts.resolve(node.func)
    if name:
        return _of_library_call(facts, node, name)
    if isinstance(node.func, ast.Name) and not facts.bindings(node.func):
        return _of_built_in(facts, node, node.func.id)
    if isinstance(node.func, ast.Attribute):
        kind = _of_method(facts, node, node.func)
        if kind.is_known:
            return kind
    callee = facts.kind_of(node.func)
    if callee.name == "module":
        return _of_forward(callee)
    return _of_project_call(facts, node)


def _of_project_call(facts: FileFacts, node: ast.Call) -> Kind:
    if facts.is_module_class(node.func):
        return Kind("module", of=path_of(node.func) or "")
    found = facts.definition(node.func)
    if found is None or isinstance(found.scope.node, ast.ClassDef):
        return UNKNOWN if found is None else OTHER
    return facts.returned_by(found).kind


def _of_forward(module: Kind) -> Kind:
    """Of what a module returns: a tensor, if it is one of PyTorch's own that return one."""
    stem, _, last = module.of.rpartition(".")
    if not stem.startswith("torch.nn") or last in _TUPLE_MODULES or last in ("Module", "ModuleList"):
        return UNKNOWN
    return IN_GRAPH


def _of_library_call(facts: FileFacts, node: ast.Call, name: str) -> Kind:
    last = name.rpartition(".")[2]
    if name in FROM_NOTHING:
        wanted = keyword(node, "requires_grad")
        graph = None if wanted is not None else False
        on = keyword(node, "device")
        return Kind("tensor", graph=graph, device="cpu" if on is None else _device(on))
    if name in OF_TENSORS or name in LOSS_FUNCTIONS:
        graphs = {_graph(facts.kind_of(each)) for each in _tensors_given(node)}
        graph = True if True in graphs else False if graphs == {False} else None
        return Kind("tensor", graph=graph)
    if name.startswith("torch.nn.functional.") and last not in ("multi_head_attention_forward", "embedding_bag"):
        return Kind("tensor", graph=True if any(_graph(facts.kind_of(each)) for each in node.args[:2]) else None)
    if name == "torch.nn.Parameter":
        return PARAMETER
    if name.startswith("torch.nn.") and last[:1].isupper() and last not in ("ParameterList", "ParameterDict"):
        return Kind("module", of=name)
    if last in OPTIMIZERS:
        return Kind("optimizer", of=name)
    if name.startswith("torch.optim.lr_scheduler."):
        return SCHEDULER
    if name in ("copy.copy", "copy.deepcopy") and node.args:
        return facts.kind_of(node.args[0])
    if name.startswith("numpy."):
        return NDARRAY if name in NUMPY_ARRAYS else UNKNOWN
    if name in ("torch.cuda.Stream", "torch.cuda.Event", "torch.cuda.current_stream"):
        return Kind("stream")
    if name in ("torch.chunk", "torch.split", "torch.unbind"):
        return Kind("list", element=TENSOR)
    if last in WRAPPERS and node.args:
        return facts.kind_of(node.args[0])
    if name.startswith("torchvision.models.") and not last[:1].isupper():
        return MODULE
    if last == "from_pretrained" and "Model" in name.split(".")[-2:][0]:
        return MODULE
    return _of_project_call(facts, node)


def _graph(kind: Kind) -> bool | None:
    """Whether what is computed from a value hangs on a graph."""
    return True if kind.name == "parameter" else kind.graph


def _tensors_given(node: ast.Call) -> list[ast.expr]:
    first = node.args[:1] and node.args[0]
    if isinstance(first, ast.List | ast.Tuple):
        return list(first.elts)
    return node.args[:2] if node.args else []


def _of_built_in(facts: FileFacts, node: ast.Call, name: str) -> Kind:
    if name in ("list", "tuple", "sorted"):
        return Kind("list", element=facts.kind_of(node.args[0]).element) if node.args else LIST
    if name in ("sum", "abs", "max", "min") and len(node.args) == 1:
        kind = facts.kind_of(node.args[0])
        return kind if name == "abs" else kind.element or UNKNOWN
    return _BUILT_IN.get(name, UNKNOWN)


def _of_method(facts: FileFacts, node: ast.Call, func: ast.Attribute) -> Kind:
    of, method = facts.kind_of(func.value), func.attr
    if of.is_tensor:
        return _of_tensor_method(of, method, node)
    match of.name, method:
        case ("module", _) if method in _MODULE_METHODS:
            return of
        case ("ndarray", "copy" | "astype" | "reshape" | "ravel" | "flatten" | "transpose" | "squeeze"):
            return NDARRAY
        case ("ndarray", "tolist"):
            return LIST
        case ("dict" | "state_dict", "items"):
            return Kind("iterator", element=of.element, pairs=True)
        case ("dict" | "state_dict", "values"):
            return Kind("iterator", element=of.element)
        case ("dict" | "state_dict", "get" | "pop"):
            return of.element or UNKNOWN
        case ("dict" | "list" | "state_dict", "copy"):
            return of
    match method:
        case "parameters":
            return Kind("iterator", element=PARAMETER) if of.name in ("module", "unknown") else UNKNOWN
        case "named_parameters":
            return Kind("iterator", element=PARAMETER, pairs=True)
        case "buffers":
            return Kind("iterator", element=DETACHED)
        case "named_buffers":
            return Kind("iterator", element=DETACHED, pairs=True)
        case "named_modules" | "named_children":
            return Kind("iterator", element=MODULE, pairs=True)
        case "modules" | "children":
            return Kind("iterator", element=MODULE)
        case "state_dict" if of.name not in ("optimizer", "scheduler"):
            return Kind("state_dict", of=path_of(func.value) or "", element=DETACHED)
    return UNKNOWN


def _of_tensor_method(of: Kind, method: str, node: ast.Call) -> Kind:
    graph = True if of.name == "parameter" else of.graph
    if method in ("to", "cpu", "cuda"):
        target: ast.expr | None = node.args[0] if node.args else keyword(node, "device")
        device: Literal["", "cpu", "cuda"] = (
            _device(target) if method == "to" else "cpu" if method == "cpu" else "cuda"
        )
        return Kind("tensor", graph=graph, device=device)
    if method in SAME_GRAPH_METHODS:
        return Kind("tensor", graph=graph, device=of.device)
    if method in DETACHED_METHODS:
        return Kind("tensor", graph=False, device=of.device)
    if method in NUMBER_METHODS:
        return NUMBER
    if method in ("max", "min", "sort", "topk", "median", "mode"):
        return TENSOR if method in ("max", "min") and not node.args and not node.keywords else UNKNOWN
    if method == "numpy":
        return NDARRAY
    if method == "tolist":
        return LIST
    if method in _LISTED_TENSORS:
        return Kind("list", element=Kind("tensor", graph=graph))
    return UNKNOWN


def _device(node: ast.expr | None) -> Literal["", "cpu", "cuda"]:
    """Which device an expression such as `"cuda:0"` or `torch.device("cpu")` stands for, if it says so."""
    if isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if node.value.startswith("cpu"):
            return "cpu"
        return "cuda" if node.value.startswith("cuda") else ""
    return ""
