"""The tensors of modules and optimizers by the names that their state_dicts give them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

_COMPILED = "_orig_mod"  # the attribute in which `torch.compile` keeps the module
_EXTRA_STATE = "_extra_state"  # what `get_extra_state` gave: any object


def running_module(module: nn.Module) -> nn.Module:
    """The module that a compiled one runs; any other module itself."""
    while _COMPILED in module._modules:
        inner = module._modules[_COMPILED]
        if inner is None:
            break
        module = inner
    return module


def named_tensors(module: nn.Module | None) -> tuple[dict[str, Tensor], set[str]]:
    """Parameters and buffers by dotted name, tied ones under each, and which names a state_dict leaves out."""
    named: dict[str, Tensor] = {}
    left_out: set[str] = set()
    todo: list[tuple[str, nn.Module, frozenset[int]]] = [("", module, frozenset())] if module is not None else []
    while todo:
        prefix, each, inside = todo.pop()
        each = running_module(each)
        for table in (each._parameters, each._buffers):
            named.update((prefix + name, value) for name, value in table.items() if value is not None)
        left_out.update(prefix + name for name in each._non_persistent_buffers_set)
        inside |= {id(each)}
        children = [(n, c) for n, c in each._modules.items() if c is not None and id(c) not in inside]
        todo.extend((f"{prefix}{name}.", child, inside) for name, child in reversed(children))
    return named, left_out


def tensors_of_state_dict(state: Mapping[Any, Any]) -> dict[Any, Any]:
    """A module's state_dict by the names of the module that runs, without what `get_extra_state` put there."""
    names = {key: key.replace(f"{_COMPILED}.", "") if isinstance(key, str) else key for key in state}
    return {name: state[key] for key, name in names.items() if not str(key).endswith(_EXTRA_STATE)}


def wrapper_prefix(names: Iterable[Any], longer: Iterable[Any]) -> str:
    """What stands before each of `names` in `longer`, as a wrapper such as DDP puts it there; empty if nothing."""
    inner, outer = list(map(str, names)), list(map(str, longer))
    found = next((name for name in outer if inner and name.endswith(f".{inner[0]}")), "")
    prefix = found.removesuffix(inner[0]) if inner else ""
    return prefix if {prefix + name for name in inner} <= set(outer) else ""


@dataclasses.dataclass(frozen=True)
class OptimizerParts:
    """An optimizer or its state_dict, parameters by number.

    Attributes:
        style: how the two parts are reached, `.` or `[]`.
        groups: the options of each parameter group.
        state: what is kept for each parameter.
        holder: where `state` comes from, to assign to.
        keys: for each key of `state` the one that `holder` uses.
    """

    style: str
    groups: list[dict[str, Any]]
    state: dict[Any, Any]
    holder: Any
    keys: dict[Any, Any]


def optimizer_parts(source: Any) -> OptimizerParts | None:
    """The parts of an optimizer or of an optimizer's state_dict; None for another mapping."""
    if not isinstance(source, Optimizer):
        if {"state", "param_groups"} - set(source):
            return None
        state = source["state"]
        return OptimizerParts("[]", list(source["param_groups"]), dict(state), state, {key: key for key in state})
    parameters = [p for group in source.param_groups for p in group["params"]]
    keys: dict[Any, Any] = {k: p for k, p in enumerate(parameters) if p in source.state}
    keys |= {key: key for key in source.state if not isinstance(key, Tensor)}
    state = {number: source.state[key] for number, key in keys.items()}
    return OptimizerParts(".", source.param_groups, state, source.state, keys)
