"""The tensors in a model, optimizer or any nesting of containers, each with the path that leads to it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from ..._errors import InputError

ACCEPTED = "a tensor, or an `nn.Module`, optimizer, dict, list, tuple or dataclass that holds tensors"

# Containers and tensors met on the way; more than any training state has, and soon enough to stop one that holds
# itself twice on every level.
_MAX_PATHS = 1_000_000

_Child = tuple[tuple[Hashable, ...], str, Any]
"""What is added to the key, what is added to the path, and the child."""


@dataclass(frozen=True, slots=True)
class PathTensor:
    """A tensor inside a container.

    Attributes:
        key: the steps that lead to it, the same for a module and its state_dict.
        path: the same, as Python would write it: `['optimizer'].state[3]['exp_avg']`.
        tensor: the tensor.
    """

    key: tuple[Hashable, ...]
    path: str
    tensor: Tensor


def is_container(value: object) -> bool:
    """Whether tensors are looked for inside `value`."""
    return isinstance(value, (nn.Module, Optimizer, Mapping, list, tuple)) or _is_dataclass_instance(value)


def tensors_in(container: object, name: str) -> tuple[PathTensor, ...]:
    """All tensors in `container`, in its own order; a tensor at two paths is given twice.

    What holds itself is entered once. Values that are neither tensors nor containers are passed over.

    Raises:
        InputError: more paths than any training state has; `name` is what the error calls the container.
    """
    found: list[PathTensor] = []
    entered = {id(container)}
    stack: list[tuple[int, tuple[Hashable, ...], str, Iterator[_Child]]]
    stack = [(id(container), (), "", _children(container))]
    met = 0
    while stack:
        identity, key, path, children = stack[-1]
        for key_step, path_step, child in children:
            here, at = key + key_step, path + path_step
            if isinstance(child, Tensor):
                found.append(PathTensor(here, at, child))
            elif is_container(child) and id(child) not in entered:
                entered.add(id(child))
                stack.append((id(child), here, at, _children(child)))
            else:
                continue
            met += 1
            if met > _MAX_PATHS:
                raise InputError(
                    f"{name} has more than {_MAX_PATHS:,} paths: does it hold one container many times?"
                )
            if stack[-1][0] != identity:
                break  # into the child first
        else:
            stack.pop()
            entered.discard(identity)
    return tuple(found)


_COMPILED = "_orig_mod"  # the attribute in which `torch.compile` keeps the module


def _children(container: Any) -> Iterator[_Child]:
    if isinstance(container, nn.Module):
        return _of_module(container)
    if isinstance(container, Optimizer):
        return _of_optimizer(container)
    if isinstance(container, Mapping):
        return (
            ((_plain(key, k),), f"[{_shown(key, k)}]", value) for k, (key, value) in enumerate(container.items())
        )
    if _is_dataclass_instance(container):
        names: Any = (field.name for field in dataclasses.fields(container))
        return (((name,), f".{name}", getattr(container, name)) for name in names if hasattr(container, name))
    names = getattr(container, "_fields", None)
    if isinstance(container, tuple) and isinstance(names, tuple):
        return (((name,), f".{name}", value) for name, value in zip(names, container, strict=False))
    return (((k,), f"[{k}]", value) for k, value in enumerate(container))


def _of_module(module: nn.Module) -> Iterator[_Child]:
    """Parameters and buffers by dotted name, as in a state_dict, and tensors that are plain attributes.

    Tied ones come under each of their names. A compiled module has the names of the module that it runs.
    """
    stack: list[tuple[str, nn.Module, frozenset[int]]] = [("", module, frozenset())]
    while stack:
        prefix, each, inside = stack.pop()
        own = (
            *each.named_parameters(recurse=False, remove_duplicate=False),
            *each.named_buffers(recurse=False, remove_duplicate=False),
            *((name, value) for name, value in vars(each).items() if isinstance(value, Tensor)),
        )
        for name, tensor in own:
            yield (f"{prefix}{name}",), f".{prefix}{name}", tensor
        inside = inside | {id(each)}
        children = [
            (n, child) for n, child in each._modules.items() if child is not None and id(child) not in inside
        ]
        stack.extend(
            (prefix if name == _COMPILED else f"{prefix}{name}.", child, inside)
            for name, child in reversed(children)
        )


def _of_optimizer(optimizer: Optimizer) -> Iterator[_Child]:
    """Parameters by group, and their state by the number that the optimizer's state_dict gives them."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state = {k: optimizer.state[p] for k, p in enumerate(parameters) if p in optimizer.state}
    yield ("param_groups",), ".param_groups", optimizer.param_groups
    yield ("state",), ".state", state


def _is_dataclass_instance(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _plain(key: object, position: int) -> Hashable:
    """A mapping's key where it compares by value, its place in the mapping otherwise."""
    if _compares_by_value(key):
        return key
    return (type(key).__name__, position)


def _compares_by_value(key: object) -> bool:
    if isinstance(key, tuple):
        return all(_compares_by_value(each) for each in key)
    return key is None or isinstance(key, (str, int, float, bytes, enum.Enum))


def _shown(key: object, position: int) -> str:
    return repr(key) if _compares_by_value(key) else f"<{type(key).__name__} {position}>"
