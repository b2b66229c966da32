"""The private entry points, and for each a self-check: does the installed torch do what torchcopy needs of it?

A check raises where it does not, and returns a line saying what it saw where it does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .storage_probe import StorageProbe, expired_storages, free_weak_storages, weak_storages

_C: Any = torch._C  # its type stubs leave these functions out


def _check_data_address() -> str:
    base = torch.arange(8.0)
    if _C._data_address(base) != base.data_ptr():
        raise RuntimeError("it differs from `data_ptr()` of an ordinary tensor")
    return "equals `data_ptr()`"


def _check_storage_id() -> str:
    base, other = torch.arange(8.0), torch.arange(8.0)
    ids = [_C._storage_id(t) for t in (base, base[2:], base.detach(), other)]
    if len(set(ids[:3])) != 1 or ids[3] == ids[0]:
        raise RuntimeError("views of one storage do not have one id")
    return "one id for all views of a storage"


def _check_storage_object() -> str:
    base = torch.arange(8.0)
    held = base.untyped_storage()
    if base[2:].untyped_storage() is not held or torch.arange(8.0).untyped_storage() is held:
        raise RuntimeError("views of one storage do not have one storage object")
    return "one object for all views of a storage, while it is held"


def _check_storage_uses() -> str:
    base = torch.arange(8.0)
    number = _C._storage_id(base)
    storage = base.untyped_storage()  # its object counts, from now on
    alone = _C._storage_Use_Count(number)
    view, array = base[2:], base.numpy()
    seen = [_C._storage_Use_Count(number)]
    del view
    seen.append(_C._storage_Use_Count(number))
    del array
    seen.append(_C._storage_Use_Count(number))
    del base
    seen.append(_C._storage_Use_Count(number))
    if [uses - alone for uses in seen] != [2, 1, 0, -1] or storage.nbytes() != 32:
        raise RuntimeError("it does not count the tensors of a storage")
    return "counts tensors, views and arrays"


def _check_lazy_clone() -> str:
    source = torch.arange(1024.0)
    lazy: Tensor = torch._lazy_clone(source)
    if not (_C._is_cow_tensor(source) and _C._is_cow_tensor(lazy)):
        raise RuntimeError("the clone is not copy-on-write")
    if _C._data_address(source) != _C._data_address(lazy):
        raise RuntimeError("the clone was copied at once")
    if float(source.sum()) != float(lazy.sum()) or not _C._is_cow_tensor(lazy):
        raise RuntimeError("a read copied the bytes")
    source[0] = -1.0
    if float(lazy[0]) != 0.0 or _C._is_cow_tensor(source):
        raise RuntimeError("a write to the source reached the clone")
    lazy[1] = -2.0
    if float(source[1]) != 1.0:
        raise RuntimeError("a write to the clone reached the source")
    return "bytes are copied at the first write, on either side"


def _check_weak_storage() -> str:
    source = torch.arange(4.0)
    alias, address, probe = source.detach(), _C._data_address(source), StorageProbe()
    weak = weak_storages([source, alias])
    if weak[0] != weak[1] or weak[0] != _C._storage_id(source):
        raise RuntimeError("it is not one number for one storage")
    if probe.look(weak) != [address] * 2 or probe.are_lazy(weak) != [False] * 2:
        raise RuntimeError("it does not show the storage as it is")
    lazy = torch._lazy_clone(source)
    del source
    if probe.look(weak) != [address] * 2 or probe.are_lazy(weak) != [True] * 2 or not _C._is_cow_tensor(lazy):
        raise RuntimeError("it does not show a lazy storage as it is")
    alias.add_(1)
    if probe.look(weak) != [_C._data_address(alias)] * 2 or _C._data_address(alias) == address:
        raise RuntimeError("it does not see a write")
    if probe.are_lazy(weak) != [False] * 2:
        raise RuntimeError("it does not see that a write ended the sharing")
    del alias
    if expired_storages(weak) != [True] * 2 or probe.look(weak) != [None] * 2:
        raise RuntimeError("it keeps the storage alive")
    free_weak_storages(weak)
    return "sees a storage shared, written and freed, and does not keep it"


def _check_foreach_copy() -> str:
    sources = [torch.arange(5.0), torch.arange(6.0).view(2, 3).t()]
    targets = [torch.zeros(5), torch.zeros(3, 2, dtype=torch.float64)]
    torch._foreach_copy_(targets, sources)
    if not all(torch.equal(d, s.to(d.dtype)) for d, s in zip(targets, sources, strict=True)):
        raise RuntimeError("it copied other values")
    return "many tensors in one call"


def _check_foreach_lerp() -> str:
    targets, ends = (
        [torch.arange(5.0), torch.zeros(3, 2, dtype=torch.float64)],
        [torch.ones(5), torch.ones(2, 3).t()],
    )
    ends[1] = ends[1].double()
    expected = [torch.lerp(d, s, 0.25) for d, s in zip(targets, ends, strict=True)]
    torch._foreach_lerp_(targets, ends, 0.25)
    if not all(torch.equal(d, e) for d, e in zip(targets, expected, strict=True)):
        raise RuntimeError("it gave other values than `lerp_`")
    return "many tensors in one call"


def _check_foreach_clone() -> str:
    sources = [torch.arange(5.0), torch.arange(6).view(2, 3).t()]
    copies = torch._foreach_clone(sources)
    if not all(torch.equal(c, s) and c.stride() == s.stride() for c, s in zip(copies, sources, strict=True)):
        raise RuntimeError("it made other tensors")
    if {_C._storage_id(c) for c in copies} & {_C._storage_id(s) for s in sources} or len(copies) != 2:
        raise RuntimeError("the copies share memory")
    return "many tensors in one call, a storage each"


def _check_version_counter() -> str:
    leaf = torch.zeros(2, requires_grad=True)
    detached, data = leaf.detach(), leaf.data
    before = leaf._version
    _C._autograd._unsafe_set_version_counter((leaf,), (before + 5,))
    seen = (detached._version, data._version)
    _C._autograd._unsafe_set_version_counter((leaf,), (before,))
    if seen != (before + 5, before) or leaf._version != before:
        raise RuntimeError("it does not reach all tensors on one counter")
    return "`detach()` shares the counter, `.data` does not"


@dataclasses.dataclass(frozen=True)
class EntryPoint:
    """A private function: what it is used for, what is done without it, and how its self-check goes."""

    name: str
    purpose: str
    fallback: str
    check: Callable[[], str]


ENTRY_POINTS = (
    EntryPoint("torch._C._data_address", "read an address without writing", "`data_ptr()`", _check_data_address),
    EntryPoint("torch._C._storage_id", "tell storages apart without writing", "data addresses", _check_storage_id),
    EntryPoint(
        "torch.Tensor.untyped_storage", "tell storages apart, and see their sizes", "ids", _check_storage_object
    ),
    EntryPoint(
        "torch._C._storage_Use_Count",
        "see that nobody uses a storage any more",
        "memory of copies is not kept for the next ones",
        _check_storage_uses,
    ),
    EntryPoint("torch._lazy_clone", "copy-on-write", "`clone()`", _check_lazy_clone),
    EntryPoint(
        "torch.UntypedStorage._weak_ref",
        "see a lazy storage written or freed",
        "no copy-on-write",
        _check_weak_storage,
    ),
    EntryPoint("torch._foreach_copy_", "copy many tensors in one call", "a loop of `copy_`", _check_foreach_copy),
    EntryPoint(
        "torch._foreach_lerp_", "interpolate many tensors in one call", "a loop of `lerp_`", _check_foreach_lerp
    ),
    EntryPoint("torch._foreach_clone", "clone many tensors in one call", "a loop of `clone`", _check_foreach_clone),
    EntryPoint(
        "torch._C._autograd._unsafe_set_version_counter",
        "tell whether two tensors share a version counter",
        "unknown is reported",
        _check_version_counter,
    ),
)
