"""`relate`: what two tensors, or two containers of tensors, have to do with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ... import _torch_private
from ..._errors import InputError
from .pair import Relation, relate_tensors
from .parts import parts_of
from .paths import ACCEPTED, is_container
from .tree import TreeRelation, relate_containers

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Container = nn.Module | Optimizer | Mapping[Any, Any] | Sequence[Any] | DataclassInstance


@overload
def relate(a: Tensor, b: Tensor, *, values: bool = True) -> Relation: ...


@overload
def relate(a: Container, b: Container, *, values: bool = True) -> TreeRelation: ...


def relate(a: object, b: object, *, values: bool = True) -> Relation | TreeRelation:
    """Tells what two live tensors, models, state_dicts or other containers have to do with each other.

    Containers are related path by path; a module and its state_dict have the same paths. Sparse, nested and
    wrapper tensors are looked at through the tensors they consist of.

    Storage: none is shared with the result, which keeps no tensor alive. Graph: it is read, never added to.
    Synchronises: only where values on an accelerator are compared. Changes an input: no; a lazy tensor stays lazy.

    Args:
        a: a tensor, or an `nn.Module`, optimizer, dict, list, tuple or dataclass that holds tensors.
        b: the same; a tensor where a is one.
        values: whether to read and compare the values. Bytes that both read in the same way need no reading.

    Returns:
        A `Relation` for two tensors, a `TreeRelation` for two containers. Printed, each says what it found.

    Raises:
        InputError: a or b is neither a tensor nor a container, or only one of them is a tensor; a tensor has no
            memory that can be looked at, such as inside `torch.vmap`; or the autograd graph is so deep that
            looking at it would be dangerous.

    Example:
        >>> import torch
        >>> from torchcopy import relate
        >>> a = torch.ones(3, requires_grad=True)
        >>> print(relate(a, a.detach()))
        b is a detached view of a: writing one changes the other; gradients do not flow.
        >>> relation = relate(a, (a * 2).sum())
        >>> relation.memory, relation.graph, relation.graph_path
        ('separate', 'a→b', ('MulBackward0', 'SumBackward0'))
        >>> x = torch.arange(6.0)
        >>> relate(x[::2], x[1::2]).shared_bytes
        0
    """
    tensors = [isinstance(value, Tensor) for value in (a, b)]
    for name, value, is_tensor in zip("ab", (a, b), tensors, strict=True):
        if not is_tensor and not is_container(value):
            raise InputError(f"{name} is a {_type_name(value)}: expected {ACCEPTED}{_advice(name, value)}")
    if tensors[0] != tensors[1]:
        one, other = ("a", "b") if tensors[0] else ("b", "a")
        container = b if tensors[0] else a
        raise InputError(
            f"{one} is a tensor and {other} is a {_type_name(container)}: pass two tensors or two containers, "
            f"such as `relate([{one}], {other})`"
        )
    with _torch_private.outside_modes(), torch.no_grad():
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return relate_tensors(a, b, parts_of(a, "a"), parts_of(b, "b"), values=values)
        return relate_containers(a, b, values=values)


def _type_name(value: object) -> str:
    kind = type(value)
    return f"`{kind.__qualname__}`" if kind.__module__ == "builtins" else f"`{kind.__module__}.{kind.__qualname__}`"


def _advice(name: str, value: object) -> str:
    if isinstance(value, type):
        return f"; {name} is a class, pass an instance"
    if type(value).__module__ == "numpy":
        return f"; `torch.from_numpy({name})` shares its memory"
    if isinstance(value, torch.UntypedStorage | torch.TypedStorage):
        return f"; pass a tensor on it, such as `torch.empty(0).set_({name})`"
    if callable(getattr(value, "__next__", None)):
        return f"; pass `list({name})`, as an iterator can be read only once"
    return ""
