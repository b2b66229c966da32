"""The relation of two tensors: what they share in memory and in the autograd graph, and how they differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from ... import _torch_private
from . import drawing, wording
from .graph_path import Graph, GraphReader, graph_path
from .parts import (
    Part,
    StorageFacts,
    TensorFacts,
    shared_bytes,
    storage_facts,
    tensor_facts,
    wraps_tensors,
)
from .values import same_values

Memory = Literal["same", "overlap", "lazy", "separate"]
"""`same`: exactly the same bytes. `overlap`: some bytes are common. `lazy`: common until the first write to either.
`separate`: no byte is common, though both may be views of one storage."""

Side = Literal["a", "b"]

Difference = Literal["dtype", "shape", "strides", "device", "layout", "conjugation", "negation"]


@dataclass(frozen=True, repr=False)
class Relation:
    """What two tensors have to do with each other.

    Prints as a sentence. Holds facts only: neither tensor nor its memory is kept alive by it.

    Attributes:
        memory: see `Memory`.
        shared_bytes: how many bytes both read, each counted once; exact, gaps between strided elements left out.
            For `lazy`, how many are common until the first write.
        same_storage: whether they view one storage object.
        shares_version_counter: whether a write to one is seen in the other's `_version`; None where it cannot be
            told, as for tensors made in inference mode.
        graph: `a→b`: b was computed from a, so gradients of b flow to a. `b→a`: the other way. `common`: neither,
            but both were computed from something. `none`: no way between them.
        graph_path: names of the autograd nodes on the shortest way: from a to b (or b to a) in the order they
            were computed; for `common` from a's node back to the common one and on to b's.
        common_at: index in `graph_path` of the common node; None unless `graph` is `common`.
        same_values: whether they are numerically equal, NaN equal to NaN; None where that was not or could not be
            found out.
        same_tensor: whether a and b are one Python object.
        view_base: which of them PyTorch has on record as the base that the other is a view of; None if neither.
        differences: what differs besides values and memory.
        a: facts of the first tensor.
        b: facts of the second tensor.
        storages: the storages they view.
        notes: what else there is to know, such as why `same_values` is None.
    """

    memory: Memory
    shared_bytes: int
    same_storage: bool
    shares_version_counter: bool | None
    graph: Graph
    graph_path: tuple[str, ...]
    common_at: int | None
    same_values: bool | None
    same_tensor: bool
    view_base: Side | None
    differences: tuple[Difference, ...]
    a: TensorFacts
    b: TensorFacts
    storages: tuple[StorageFacts, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return wording.pair_text(self)

    def __repr__(self) -> str:
        return (
            f"<Relation memory={self.memory!r} shared_bytes={self.shared_bytes} graph={self.graph!r} "
            f"same_values={self.same_values}: {self}>"
        )

    def _repr_html_(self) -> str:
        return drawing.pair_html(self)

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON, with the sentence it prints as under `text`."""
        return {"text": str(self), **plain_data(self)}

    def to_mermaid(self) -> str:
        """Storages and graph as a Mermaid flowchart, for a Markdown page."""
        return drawing.pair_mermaid(self)

    def to_svg(self) -> str:
        """Storages, with the bytes that each tensor views to scale, and the graph, as an SVG picture."""
        return drawing.pair_svg(self)


def relate_tensors(
    a: Tensor,
    b: Tensor,
    parts_a: tuple[Part, ...],
    parts_b: tuple[Part, ...],
    *,
    values: bool,
    reader: GraphReader | None = None,
) -> Relation:
    """The relation of two tensors whose parts are known. To be called outside of the caller's modes."""
    storages, facts_of_storages = storage_facts((*parts_a, *parts_b))
    facts_a, facts_b = tensor_facts(a, parts_a, storages), tensor_facts(b, parts_b, storages)
    memory, shared = memory_of(parts_a, parts_b, facts_a.viewed_bytes, facts_b.viewed_bytes)
    same_storage = not {p.storage for p in parts_a}.isdisjoint(p.storage for p in parts_b)
    if a is b:
        memory, same_storage = "same", True
    way = graph_path(a, b, reader)
    differences = _differences(facts_a, facts_b)
    notes = [f"Autograd refuses to go through one of them: {way.refused}"] if way.refused else []
    equal: bool | None = None
    if values and "shape" in differences:
        equal = False
    elif values:
        equal, reason = _same_values(a, b, parts_a, parts_b)
        notes += [reason] if reason else []
    return Relation(
        memory=memory,
        shared_bytes=shared,
        same_storage=same_storage,
        shares_version_counter=_shares_version_counter(a, b, share=same_storage or shared > 0),
        graph=way.graph,
        graph_path=way.nodes,
        common_at=way.common_at,
        same_values=equal,
        same_tensor=a is b,
        view_base="a" if _is_base(a, b) else "b" if _is_base(b, a) else None,
        differences=differences,
        a=facts_a,
        b=facts_b,
        storages=facts_of_storages,
        notes=tuple(notes),
    )


def memory_of(
    parts_a: tuple[Part, ...], parts_b: tuple[Part, ...], bytes_a: int, bytes_b: int
) -> tuple[Memory, int]:
    """How two tensors that view `bytes_a` and `bytes_b` bytes share memory, and how many bytes."""
    shared = shared_bytes(parts_a, parts_b)
    if shared == 0:
        return "separate", 0
    if all(_lazily_shared(p, q) for p in parts_a for q in parts_b if shared_bytes([p], [q])):
        return "lazy", shared
    return ("same" if shared == bytes_a == bytes_b else "overlap"), shared


def _lazily_shared(p: Part, q: Part) -> bool:
    """Whether two parts with common bytes would lose them at the first write to either."""
    return p.storage != q.storage and p.lazy and q.lazy


def _shares_version_counter(a: Tensor, b: Tensor, *, share: bool) -> bool | None:
    if not share:  # a counter belongs to tensors of one storage; without one there is nothing to probe
        return False
    return _torch_private.shares_version_counter(a, b)


def _is_base(a: Tensor, b: Tensor) -> bool:
    return b._is_view() and b._base is a


def _differences(a: TensorFacts, b: TensorFacts) -> tuple[Difference, ...]:
    found: list[Difference] = []
    if a.dtype != b.dtype:
        found.append("dtype")
    if a.shape != b.shape:
        found.append("shape")
    elif a.strides is not None and b.strides is not None and _walked_differently(a.shape, a.strides, b.strides):
        found.append("strides")
    if a.device != b.device:
        found.append("device")
    if a.layout != b.layout:
        found.append("layout")
    if a.conjugated != b.conjugated:
        found.append("conjugation")
    if a.negated != b.negated:
        found.append("negation")
    return tuple(found)


def _walked_differently(shape: Sequence[object], a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether strides differ where it matters: that of a dimension of one element leads nowhere."""
    return 0 not in shape and any(n != 1 and s != t for n, s, t in zip(shape, a, b, strict=True))


def _same_values(
    a: Tensor, b: Tensor, parts_a: tuple[Part, ...], parts_b: tuple[Part, ...]
) -> tuple[bool | None, str]:
    if not all(p.readable for p in (*parts_a, *parts_b)):
        return None, "There are no values to compare (meta or fake tensors, or a storage that was freed)"
    if a is b or _read_the_same_way(a, b, parts_a, parts_b):
        return True, ""
    return same_values(a, b)


def _read_the_same_way(a: Tensor, b: Tensor, parts_a: tuple[Part, ...], parts_b: tuple[Part, ...]) -> bool:
    """Whether the same bytes are read in the same way, so that the values need not be."""
    if any(wraps_tensors(t) or t.is_quantized for t in (a, b)):
        return False  # the same bytes may stand for other numbers there
    return [_reading(p) for p in parts_a] == [_reading(p) for p in parts_b] and a.layout == b.layout


def _reading(p: Part) -> tuple[Hashable, ...]:
    t = p.tensor
    return p.name, p.space, p.bytes.start, t.dtype, t.shape, t.stride(), t.is_conj(), t.is_neg()


def plain_data(record: Any) -> Any:
    """A record as dicts, lists, strings and numbers only."""
    if dataclasses.is_dataclass(record):
        return {f.name: plain_data(getattr(record, f.name)) for f in dataclasses.fields(record)}
    if isinstance(record, dict):
        return {key: plain_data(value) for key, value in record.items()}
    if isinstance(record, (list, tuple)):
        return [plain_data(each) for each in record]
    return record
