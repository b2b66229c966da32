"""What a call of `copy` asks for, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from .._errors import InputError
from ..semantics.sources import parse_device, parse_dtype

Graph = Literal["detach", "keep"]
Memory = Literal["own", "share", "lazy"]
OnEscape = Literal["warn", "error", "ignore"]

_FORMATS = (torch.preserve_format, torch.contiguous_format, torch.channels_last, torch.channels_last_3d)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The four answers that make a copy, and what else a caller may say.

    Attributes:
        graph: `"detach"` or `"keep"`.
        memory: `"own"`, `"share"` or `"lazy"`.
        device: where the copy goes; None leaves every tensor on its device.
        dtype: what floating tensors become; None leaves them.
        memory_format: as in `torch.Tensor.clone`.
        requires_grad: of every floating tensor of the copy; None as in the source.
        grad: whether `.grad` is copied.
        pin_memory: whether host memory of the copy is page-locked.
        non_blocking: whether transfers between devices may run on while Python goes on.
        on_escape: what to do about ways back to the source.
        shared_types: types whose instances are kept by reference.
        shared_ids: ids of objects that are kept by reference.
        only_looks: whether the copy is made to see which tensors there are, and then thrown away.
    """

    graph: Graph = "detach"
    memory: Memory = "own"
    device: torch.device | None = None
    dtype: torch.dtype | None = None
    memory_format: torch.memory_format = torch.preserve_format
    requires_grad: bool | None = None
    grad: bool = False
    pin_memory: bool = False
    non_blocking: bool = False
    on_escape: OnEscape = "warn"
    shared_types: tuple[type, ...] = ()
    shared_ids: frozenset[int] = frozenset()
    only_looks: bool = False

    @property
    def shares_something(self) -> bool:
        """Whether anything is to be kept by reference."""
        return bool(self.shared_types or self.shared_ids)

    def is_shared(self, x: object) -> bool:
        """Whether `x` is to be kept by reference."""
        return id(x) in self.shared_ids or (bool(self.shared_types) and isinstance(x, self.shared_types))

    def without_graph(self) -> Request:
        """The same request for copies outside the graph."""
        return dataclasses.replace(self, graph="detach")

    def without_escapes(self) -> Request:
        """The same request, where escapes have been reported."""
        return dataclasses.replace(self, on_escape="ignore")

    def only_looking(self) -> Request:
        """A request for the objects alone: their tensors are aliases, and nothing is reported."""
        return Request(
            graph="detach",
            memory="share",
            on_escape="ignore",
            shared_types=self.shared_types,
            shared_ids=self.shared_ids,
            only_looks=True,
        )

    @property
    def places(self) -> bool:
        """Whether tensors change device, dtype or layout on the way."""
        return (
            self.device is not None
            or self.dtype is not None
            or self.pin_memory
            or self.memory_format is not torch.preserve_format
        )


DEFAULT = Request()


def parse_request(
    *,
    graph: str,
    memory: str,
    device: str | torch.device | int | None,
    dtype: str | torch.dtype | None,
    memory_format: torch.memory_format,
    requires_grad: bool | None,
    grad: bool,
    pin_memory: bool,
    non_blocking: bool,
    share: Iterable[Any],
    on_escape: str,
) -> Request:
    """The request, or one clear line about what is wrong with it.

    Raises:
        InputError: an option has no such value, or two contradict each other.
    """
    _one_of("graph", graph, get_args(Graph))
    _one_of("memory", memory, get_args(Memory))
    _one_of("on_escape", on_escape, get_args(OnEscape))
    for name, value in (("grad", grad), ("pin_memory", pin_memory), ("non_blocking", non_blocking)):
        if not isinstance(value, bool):
            raise InputError(f"`{name}` must be True or False; got {value!r}")
    if requires_grad is not None and not isinstance(requires_grad, bool):
        raise InputError(f"`requires_grad` must be True, False or None; got {requires_grad!r}")
    if memory_format not in _FORMATS:
        names = ", ".join(map(str, _FORMATS))
        raise InputError(f"`memory_format` must be one of {names}; got {memory_format!r}")
    place = None if device is None else _parse_place(device)
    kind = None if dtype is None else parse_dtype(dtype)
    if kind is not None and not kind.is_floating_point:
        raise InputError(f"`dtype` converts floating tensors and leaves others; got {kind}: pass a floating dtype")
    shared_types, shared_ids = _parse_share(share)
    request = Request(
        graph=graph,  # type: ignore[arg-type]
        memory=memory,  # type: ignore[arg-type]
        device=place,
        dtype=kind,
        memory_format=memory_format,
        requires_grad=requires_grad,
        grad=grad,
        pin_memory=pin_memory,
        non_blocking=non_blocking,
        on_escape=on_escape,  # type: ignore[arg-type]
        shared_types=shared_types,
        shared_ids=shared_ids,
    )
    _check_together(request)
    return request


def _check_together(request: Request) -> None:
    if request.memory != "own" and request.places:
        raise InputError(
            f"memory={request.memory!r} keeps the bytes where and as they are: `device`, `dtype`, `memory_format` "
            "and `pin_memory` need memory='own'"
        )
    if request.graph == "keep" and request.requires_grad is not None:
        raise InputError(
            "`requires_grad` is for leaves: with graph='keep' the copy requires grad as its source does"
        )
    if request.graph == "keep" and request.grad:
        raise InputError("`grad=True` is for leaves: with graph='keep' gradients arrive at the source")
    if request.graph == "keep" and request.pin_memory:
        raise InputError("page-locked memory has no graph: use graph='detach' with `pin_memory`")
    if request.pin_memory:
        if request.device is not None and request.device.type != "cpu":
            raise InputError(f"`pin_memory` page-locks host memory; device={str(request.device)!r} is not the host")
        if not torch.accelerator.is_available():
            raise InputError("`pin_memory` page-locks host memory for an accelerator, and PyTorch finds none here")


def _one_of(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"`{name}` must be one of {', '.join(map(repr, choices))}; got {value!r}")


def _parse_place(device: str | torch.device | int) -> torch.device:
    if isinstance(device, bool):
        raise InputError(f"`device` must be a device, its name or an index; got {device!r}")
    if isinstance(device, int):
        return parse_device(f"cuda:{device}")
    if str(device) == "meta":  # shapes without values: what `functional_call` needs of a module
        return torch.device("meta")
    return parse_device(device)


def _parse_share(share: Iterable[Any]) -> tuple[tuple[type, ...], frozenset[int]]:
    """Types and ids. A module stands for its parameters and buffers too: who shares it shares them."""
    if isinstance(share, type):
        raise InputError(f"`share` takes a list of types and objects: write share=({share.__name__},)")
    if isinstance(share, (Tensor, nn.Module, str, bytes, dict)):
        raise InputError(
            f"`share` takes a list of types and objects: write share=(x,) for a {type(share).__name__}"
        )
    try:
        listed = list(share)
    except TypeError:
        raise InputError(
            f"`share` takes a list of types and objects; got a {type(share).__name__}: write share=(x,)"
        ) from None
    ids: set[int] = set()
    for each in listed:
        ids.add(id(each))
        if isinstance(each, nn.Module):
            for tensors in (each.parameters(), each.buffers()):
                ids.update(map(id, tensors))
        elif isinstance(each, (list, tuple)):
            ids.update(map(id, each))
    return tuple(each for each in listed if isinstance(each, type)), frozenset(ids)
