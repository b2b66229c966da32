"""The memory of any tensor as strided parts: one for an ordinary tensor, several for sparse and wrapper ones."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ... import _torch_private
from ..._errors import InputError
from ..._tensors import dtype_name
from .overlap import ByteSet, byte_set, union_byte_count, union_shared_byte_count

_ROWS_COMPRESSED = (torch.sparse_csr, torch.sparse_bsr)
_COLUMNS_COMPRESSED = (torch.sparse_csc, torch.sparse_bsc)


@dataclass(frozen=True, slots=True)
class Part:
    """One strided tensor that a tensor consists of.

    Attributes:
        name: `""` for the tensor itself; otherwise what the whole calls it (`values`, `crow_indices`).
        tensor: the part, on the storage of the whole.
        space: what its addresses count in; equal for parts whose addresses can be compared.
        bytes: the bytes it reads, by address in `space`.
        storage: number of its storage, equal for views of one.
        storage_start: address of the storage's first byte in `space`.
        storage_bytes: size of the storage.
        lazy: whether the storage is copy-on-write.
        readable: whether there are bytes to read: not for meta and fake tensors, nor where the storage was freed.
    """

    name: str
    tensor: Tensor
    space: Hashable
    bytes: ByteSet
    storage: int
    storage_start: int
    storage_bytes: int
    lazy: bool
    readable: bool


def parts_of(t: Tensor, name: str) -> tuple[Part, ...]:
    """The strided parts of `t`, which errors call `name`. Reads no values.

    Raises:
        InputError: `t` has no memory that can be looked at.
    """
    return tuple(_part(t, part_name, component, name) for part_name, component in _components(t, name))


def wraps_tensors(t: Tensor) -> bool:
    """Whether `t` is of a subclass that tells which tensors it consists of (`__tensor_flatten__`)."""
    return bool(is_traceable_wrapper_subclass(t))


def flattened(t: Any) -> tuple[list[str], Any]:
    """The names of the tensors that a wrapper tensor consists of, and what else it needs to be rebuilt."""
    names, context = t.__tensor_flatten__()
    return list(names), context


def shared_bytes(a: Iterable[Part], b: Iterable[Part]) -> int:
    """How many bytes are in a part of `a` and in a part of `b`, each counted once."""
    spaces_a, spaces_b = _by_space(a), _by_space(b)
    return sum(
        union_shared_byte_count(sets, spaces_b[space]) for space, sets in spaces_a.items() if space in spaces_b
    )


def viewed_bytes(parts: Iterable[Part]) -> int:
    """How many different bytes the parts have together."""
    return sum(union_byte_count(sets) for sets in _by_space(parts).values())


def _by_space(parts: Iterable[Part]) -> dict[Hashable, list[ByteSet]]:
    spaces: dict[Hashable, list[ByteSet]] = {}
    for part in parts:
        spaces.setdefault(part.space, []).append(part.bytes)
    return spaces


def _components(t: Tensor, name: str) -> Iterator[tuple[str, Tensor]]:
    """(name, strided tensor) for all that `t` consists of; ("", t) where it is strided itself."""
    _check_can_be_looked_at(t, name)
    inner: Iterable[tuple[str, Tensor]]
    if wraps_tensors(t):
        # A DTensor names its mesh too.
        inner = ((key, part) for key in flattened(t)[0] if isinstance(part := getattr(t, key), Tensor))
    elif t.is_nested:
        inner = ((f"[{k}]", row) for k, row in enumerate(t.unbind()))
    elif t.layout == torch.sparse_coo:
        inner = (("indices", t._indices()), ("values", t._values()))
    elif t.layout in _ROWS_COMPRESSED:
        inner = (("crow_indices", t.crow_indices()), ("col_indices", t.col_indices()), ("values", t.values()))
    elif t.layout in _COLUMNS_COMPRESSED:
        inner = (("ccol_indices", t.ccol_indices()), ("row_indices", t.row_indices()), ("values", t.values()))
    else:
        yield "", t
        return
    for key, component in inner:
        for rest, part in _components(component, name):
            yield ".".join(filter(None, (key, rest))), part


def _check_can_be_looked_at(t: Tensor, name: str) -> None:
    if _torch_private.is_functorch_wrapper(t):
        raise InputError(
            f"{name} stands for another tensor inside `torch.vmap`, `torch.func.grad` or the like, and has no "
            "storage of its own: call `relate` outside of the transformed function"
        )
    if torch.nn.parameter.is_lazy(t):
        raise InputError(
            f"{name} is a {type(t).__name__} without shape or memory yet: run the module once to initialise it"
        )
    if t.layout == torch._mkldnn:  # type: ignore[attr-defined]
        raise InputError(f"{name} has the layout `torch._mkldnn`, which hides its memory: pass `{name}.to_dense()`")


def _part(whole: Tensor, part_name: str, t: Tensor, name: str) -> Part:
    try:
        storage, address = _torch_private.storage_id(t), _torch_private.storage_address(t)
        untyped = t.untyped_storage()
    except RuntimeError:
        raise InputError(
            f"{name} is a {type(whole).__name__} with layout `{t.layout}`, which has no storage to look at: "
            "pass the tensors it consists of"
        ) from None
    if any(isinstance(n, torch.SymInt) for n in (*t.shape, *t.stride(), t.storage_offset())):
        raise InputError(f"{name} has symbolic sizes {tuple(t.shape)}: `relate` needs numbers")
    size_bytes = int(untyped.nbytes())
    without_values = untyped.device.type == "meta"
    freed = size_bytes == 0
    if address == 0 and t.numel() and not (without_values or freed):
        raise InputError(
            f"{name} is a {type(whole).__name__} that wraps other tensors and has no `__tensor_flatten__`: its "
            "memory cannot be seen; pass the tensors it consists of"
        )
    start = address + int(t.storage_offset()) * t.element_size()
    viewed = ByteSet(start, ()) if freed else byte_set(start, t.shape, t.stride(), t.element_size())
    return Part(
        part_name,
        t,
        # Without an address, only views of one storage can share anything.
        space=str(t.device) if address else storage,
        bytes=viewed,
        storage=storage,
        storage_start=address,
        storage_bytes=size_bytes,
        lazy=_torch_private.is_lazy(t),
        readable=not without_values and viewed.stop <= address + size_bytes and not (freed and t.numel()),
    )


# --- what a record keeps of them ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartFacts:
    """Which bytes of which storage a part of a tensor reads.

    Attributes:
        name: `""` for an ordinary tensor; otherwise `values`, `crow_indices`, ….
        storage: index into the relation's `storages`.
        first_byte: where in the storage its first element is.
        levels: the bytes from there on, as `(count, stride in bytes)` from the outermost level in; the last is
            (bytes in a run, 1).
    """

    name: str
    storage: int
    first_byte: int
    levels: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """A storage that a relation is about.

    Attributes:
        bytes: its size.
        device: where it is.
        lazy: whether it is copy-on-write: it shares its bytes with others until somebody writes.
        block: number of the piece of memory it lies in. Storages in one block are different objects on the same
            bytes: lazy clones, or two `torch.from_numpy` of one array.
        first_byte: where in the block it starts.
    """

    bytes: int
    device: str
    lazy: bool
    block: int
    first_byte: int


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """What a relation keeps of a tensor; nothing here holds its memory alive.

    Attributes:
        type: the class's name.
        dtype: `float32`.
        shape: sizes; names for those that differ from row to row in a nested tensor.
        device: `cpu`, `cuda:0`.
        layout: `strided`, `sparse_coo`, ….
        strides: in elements; None where the tensor is not strided.
        requires_grad: see `torch.Tensor.requires_grad`.
        lazy: whether a part of it is copy-on-write.
        conjugated: whether it is a lazily conjugated view (`torch.Tensor.is_conj`).
        negated: whether it is a lazily negated view (`torch.Tensor.is_neg`).
        inference: whether it was made in inference mode and has no version counter.
        viewed_bytes: bytes of memory that it reads, each counted once.
        parts: which bytes.
    """

    type: str
    dtype: str
    shape: tuple[int | str, ...]
    device: str
    layout: str
    strides: tuple[int, ...] | None
    requires_grad: bool
    lazy: bool
    conjugated: bool
    negated: bool
    inference: bool
    viewed_bytes: int
    parts: tuple[PartFacts, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}] {self.device}"


def tensor_facts(t: Tensor, parts: tuple[Part, ...], storages: dict[int, int]) -> TensorFacts:
    """The facts of `t`; `storages` maps a storage's number to its index in the relation."""
    plain = parts[0] if len(parts) == 1 and not parts[0].name else None
    return TensorFacts(
        type=type(t).__name__,
        dtype=dtype_name(t.dtype),
        shape=_shape(t),
        device=str(t.device),
        layout=str(t.layout).removeprefix("torch."),
        strides=tuple(plain.tensor.stride()) if plain else None,
        requires_grad=t.requires_grad,
        lazy=any(p.lazy for p in parts),
        conjugated=t.is_conj(),
        negated=t.is_neg(),
        inference=t.is_inference(),
        viewed_bytes=viewed_bytes(parts),
        parts=tuple(
            PartFacts(p.name, storages[p.storage], p.bytes.start - p.storage_start, p.bytes.levels) for p in parts
        ),
    )


def storage_facts(parts: Iterable[Part]) -> tuple[dict[int, int], tuple[StorageFacts, ...]]:
    """Index by storage number, and the facts of each storage, in order of appearance."""
    of_storage: dict[int, Part] = {}
    for part in parts:
        of_storage.setdefault(part.storage, part)
    by_address = sorted(of_storage.values(), key=lambda p: (str(p.space), p.storage_start))
    blocks: dict[int, tuple[int, int]] = {}  # storage -> (its block's first storage, that one's address)
    previous, first, stop = None, None, 0
    for part in by_address:
        if first is None or previous is None or part.space != previous.space or part.storage_start >= stop:
            first, stop = part, 0
        blocks[part.storage] = (first.storage, first.storage_start)
        previous, stop = part, max(stop, part.storage_start + part.storage_bytes)
    number: dict[int, int] = {}
    counter = itertools.count()
    facts = []
    for storage, part in of_storage.items():
        block, block_start = blocks[storage]
        if block not in number:
            number[block] = next(counter)
        facts.append(
            StorageFacts(
                part.storage_bytes,
                str(part.tensor.device),
                part.lazy,
                number[block],
                part.storage_start - block_start,
            )
        )
    return {storage: k for k, storage in enumerate(of_storage)}, tuple(facts)


def _shape(t: Tensor) -> tuple[int | str, ...]:
    if t.is_nested and t.layout == torch.strided:  # it has no `shape`
        return (t.size(0), *("*" for _ in range(t.dim() - 1)))
    sizes: tuple[object, ...] = tuple(t.shape)
    return tuple(n if isinstance(n, int) else str(n) for n in sizes)
