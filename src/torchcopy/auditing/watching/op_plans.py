"""What an operation does to memory, read from its schema once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

CopyOp = Literal["clone", "to", "into", "pin"]
_COPIES: dict[str, CopyOp] = {
    "aten::clone": "clone",
    "aten::copy": "clone",
    "aten::_to_copy": "to",
    "aten::copy_": "into",
    "aten::_foreach_copy_": "into",
    "aten::_pin_memory": "pin",
    "aten::to_mkldnn": "to",
}
_VIEWS = frozenset({"aten::detach", "aten::alias", "aten::view_as", "aten::lift_fresh"})
# In place, but what they change is how the tensor sees its memory, or which memory it sees.
_METADATA = frozenset(
    f"aten::{name}"
    for name in (
        "set_ resize_ resize_as_ detach_ t_ transpose_ swapaxes_ swapdims_ squeeze_ unsqueeze_ as_strided_ "
        "requires_grad_ set_data rename_ _resize_output_ _coalesced_ record_stream"
    ).split()
)
# What a batch norm writes in training, which its schema does not say: positions, and that of the flag.
_STATISTICS = {
    f"aten::{name}": ((3, 4), 5)
    for name in ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_batch_norm_impl_index")
}


@dataclasses.dataclass(frozen=True, slots=True)
class OpPlan:
    """What is to be seen to when an operation is called.

    Attributes:
        name: of the operation, without its overload: `aten::add_`.
        func: the operation itself: plans are found by its identity.
        call: what runs it.
        is_quick: whether it neither writes to its arguments nor copies them nor waits for a device.
        writes: positions of the arguments that it writes to.
        writes_named: names of those that come as keywords.
        copy: how it copies, if it does.
        reads_scalar: whether its result is a number of Python's.
        is_view: whether its result shares the memory of its first argument.
        is_silent: whether it writes without moving a version counter.
        moves_no_version: whether it moves version counters, but not under a mode: PyTorch does that elsewhere then.
        has_statistics: whether it is a batch norm, which writes to running statistics or uses them.
        is_composite: whether it is made of others, which are to be seen instead.
    """

    name: str
    func: Any = None
    call: Callable[..., Any] = lambda: None
    is_quick: bool = True
    writes: tuple[int, ...] = ()
    writes_named: tuple[str, ...] = ()
    copy: CopyOp | None = None
    reads_scalar: bool = False
    is_view: bool = False
    is_silent: bool = False
    moves_no_version: bool = False
    has_statistics: bool = False
    is_composite: bool = False


def plan_for(func: Any) -> OpPlan:
    """The plan of an `OpOverload`."""
    schema = getattr(func, "_schema", None)
    if schema is None:  # a higher-order operation
        return OpPlan(str(func), func, func)
    name = schema.name
    positions, named, is_view = [], [], name in _VIEWS
    for position, argument in enumerate(schema.arguments):
        alias = argument.alias_info
        if alias is None:
            continue
        if alias.is_write and name not in _METADATA:
            if argument.kwarg_only:
                named.append(argument.name)
            else:
                positions.append(position)
        elif position == 0 and not alias.is_write:
            is_view = True
    copy = _COPIES.get(name)
    reads_scalar = name == "aten::_local_scalar_dense"
    is_composite = name.startswith("aten::") and _is_composite(func)
    return OpPlan(
        name=name,
        func=func,
        call=getattr(func, "_op", func),  # what its own `__call__` calls
        is_quick=not (positions or named or copy or reads_scalar or is_composite or name in _STATISTICS),
        writes=tuple(positions),
        writes_named=tuple(named),
        copy=copy,
        reads_scalar=reads_scalar,
        is_view=is_view and not positions and not named,
        is_silent=name.startswith("aten::_fused_"),
        moves_no_version=name.startswith("aten::_foreach_") and bool(positions),
        has_statistics=name in _STATISTICS,
        is_composite=is_composite,
    )


def _is_composite(func: Any) -> bool:
    """Whether PyTorch would run others for it; `silu_backward` has a kernel too, which rounds differently."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    name = func.name()
    if not torch._C._dispatch_has_kernel(name):  # to ask more of one that is not registered ends the process
        return False
    return bool(has(name, "CompositeImplicitAutograd")) and not any(has(name, key) for key in ("CPU", "CUDA"))


def tensors_in(args: Sequence[Any]) -> Iterator[Tensor]:
    """The tensors among the arguments of an operation, those in its lists too."""
    for value in args:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            for each in value:
                if isinstance(each, Tensor):
                    yield each


def written_by(plan: OpPlan, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors that a call writes to."""
    found: list[Tensor] = []
    for position in plan.writes:
        if position < len(args):
            _add(args[position], found)
        else:
            continue
    for name in plan.writes_named:
        _add(kwargs.get(name), found)
    return found


def statistics_of(plan: OpPlan, args: Sequence[Any]) -> tuple[list[Tensor], bool]:
    """The running statistics of a batch norm, and whether it writes to them, as in training, or uses them."""
    positions, flag = _STATISTICS[plan.name]
    if len(args) <= flag:
        return [], False
    return [args[k] for k in positions if isinstance(args[k], Tensor)], bool(args[flag])


def _add(value: Any, found: list[Tensor]) -> None:
    if isinstance(value, Tensor):
        found.append(value)
    elif isinstance(value, (list, tuple)):
        found.extend(t for t in value if isinstance(t, Tensor))
