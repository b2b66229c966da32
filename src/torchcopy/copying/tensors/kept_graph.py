"""Copies through which gradients flow back to their sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ... import _torch_private
from ..._errors import InputError
from ..._tensors import describe, span_bytes
from ..refusals import check_have_memory
from .opaque import check_can_be_placed, copy_opaque, is_opaque, place_alone
from .strides import is_dense
from .tensor_copies import copy_tensors

if TYPE_CHECKING:
    from ..request import Request


def copy_in_graph(sources: Sequence[Tensor], request: Request) -> list[Tensor]:
    """A copy of each source in the source's graph; views of one storage stay views of one.

    Raises:
        InputError: gradients are not recorded here.
        HasNoValues: a tensor on the meta device is wanted elsewhere.
        HasNoSuchKind: a tensor is wanted where, or of a dtype, that PyTorch has none of its kind.
        HasNoMemory: a tensor's storage was freed.
    """
    check_can_be_placed(sources, request)
    if request.memory != "share":
        check_have_memory(t for t in sources if not is_opaque(t))
    for t in sources:
        if t.requires_grad and not torch.is_grad_enabled():
            raise InputError(
                f"graph='keep' cannot keep the graph of a {describe(t)} that requires grad under `torch.no_grad()` "
                "or `torch.inference_mode()`: call it outside, or use graph='detach'"
            )
    if request.memory == "share":
        return list(map(_alias, sources))
    if request.memory == "lazy" and not _torch_private.is_traced():
        return _joined(sources, request)
    copies: list[Tensor | None] = [None] * len(sources)
    for members in _by_storage(sources).values():
        views = [sources[k] for k in members]
        if len(members) == 1 and (is_opaque(views[0]) or is_dense(views[0]) or 0 not in views[0].stride()):
            made = [_alone(views[0], request)]
        else:
            made = _views(views, request) or _joined(views, request)
        for k, c in zip(members, made, strict=True):
            copies[k] = c
    return [c for c in copies if c is not None]


def _alias(t: Tensor) -> Tensor:
    """`t` once more, in its graph."""
    if t.is_nested and t.layout == torch.strided:
        nested: Tensor = torch.ops.aten.alias.default(t)
        return nested
    if t.layout in (torch.strided, torch.jagged) or _torch_private.is_functorch_wrapper(t):
        return t.view_as(t)
    join: Any = _InGraph.apply  # these have no views
    alias: Tensor = join(t, t.detach()) if _is_in_graph(t) else t.detach()
    return alias


def _alone(t: Tensor, request: Request) -> Tensor:
    return copy_opaque(t, request) if is_opaque(t) else place_alone(t, request)


def _by_storage(sources: Sequence[Tensor]) -> dict[object, list[int]]:
    groups: dict[object, list[int]] = {}
    for k, t in enumerate(sources):
        key = ("opaque", k) if is_opaque(t) else _torch_private.storage_id(t)
        groups.setdefault(key, []).append(k)
    return groups


def _views(members: Sequence[Tensor], request: Request) -> list[Tensor] | None:
    """Copies of views of one storage, as views of one copy; None where autograd knows them as unrelated."""
    roots = {id(_root(t)) for t in members}
    if len(roots) > 1 or len({t.dtype for t in members}) > 1 or any(t.is_conj() or t.is_neg() for t in members):
        return None
    item = members[0].element_size()
    lo = min(t.storage_offset() for t in members)
    hi = max(t.storage_offset() + span_bytes(t) // item for t in members)
    flat = place_alone(_root(members[0]).as_strided((hi - lo,), (1,), lo), request)
    return [flat.as_strided(t.shape, t.stride(), t.storage_offset() - lo) for t in members]


def _root(t: Tensor) -> Tensor:
    return t._base if t._base is not None else t


def _joined(sources: Sequence[Tensor], request: Request) -> list[Tensor]:
    """Copies made outside the graph, each then given its place in it."""
    # These are not for us to put into the graph: nested ones have no sizes to check, and transforms follow `clone`.
    apart = {k: _alone(t, request) for k, t in enumerate(sources) if _follows_clone(t)}
    if apart:
        rest = iter(_joined([t for k, t in enumerate(sources) if k not in apart], request))
        return [apart[k] if k in apart else next(rest) for k in range(len(sources))]
    detached = copy_tensors(sources, request.without_graph())
    join: Any = _InGraph.apply
    return [
        # `data` of what autograd knows as a view (one that conjugates) is none, so that it may be changed.
        join(t, c.data if c._is_view() else c) if _is_in_graph(t) else c
        for t, c in zip(sources, detached, strict=True)
    ]


def _follows_clone(t: Tensor) -> bool:
    return t.is_nested or _torch_private.is_functorch_wrapper(t)


def _is_in_graph(t: Tensor) -> bool:
    """Whether gradients flow back to `t`, or in forward mode a tangent comes with it."""
    unpack: Any = torch.autograd.forward_ad.unpack_dual
    return t.requires_grad or unpack(t).tangent is not None


class _InGraph(torch.autograd.Function):
    """Gives a copy that was made outside the graph its source's place in it. The derivative of a copy is 1."""

    @staticmethod
    def forward(source: Tensor, copied: Tensor) -> Tensor:  # noqa: ARG004
        return copied

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        """Makes it an operation in place: its result may be written, which views of custom functions may not."""
        source, copied = inputs
        ctx.mark_dirty(copied)
        ctx.source = source.device, source.dtype
        ctx.copied = copied.device, copied.dtype

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        device, dtype = ctx.source
        return gradients[0].to(device, dtype), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], source: Any, copied: Any) -> Any:  # noqa: ARG004
        """`torch.vmap` wants a rule for tensors from outside of it too. Those inside follow `clone`."""
        return _InGraph.apply(source, copied), in_dims[1]  # type: ignore[no-untyped-call]

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        device, dtype = ctx.copied
        return tangents[0].to(device, dtype, copy=True)
