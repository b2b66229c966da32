"""The one module that names PyTorch's private entry points.

Each private function is wrapped here behind a self-check that runs once, at first use. Where the installed
torch fails the check, the wrapper takes the eager way instead, so that no caller has to ask. `fast_paths()`
says what the check saw; `torchcopy doctor` prints it.

Copy-on-write in PyTorch lives in `c10/core/impl/COW.cpp`; nothing of it is public API as of torch 2.13.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

_C: Any = torch._C  # its type stubs leave these functions out
_UntypedStorage: Any = torch.UntypedStorage
_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class FastPath:
    """What the self-check found out about one private entry point.

    Attributes:
        name: the entry point, as PyTorch calls it.
        purpose: what torchcopy uses it for.
        works: whether the self-check saw it do what torchcopy needs.
        detail: why not, or what was seen.
        fallback: what is done where it does not work.
    """

    name: str
    purpose: str
    works: bool
    detail: str
    fallback: str

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)


# --- self-checks: each raises or returns a line saying what it saw -------------------------------------------


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
class _Entry:
    name: str
    purpose: str
    fallback: str
    check: Callable[[], str]


_ENTRIES = (
    _Entry("torch._C._data_address", "read an address without writing", "`data_ptr()`", _check_data_address),
    _Entry("torch._C._storage_id", "tell storages apart without writing", "data addresses", _check_storage_id),
    _Entry(
        "torch.Tensor.untyped_storage", "tell storages apart, and see their sizes", "ids", _check_storage_object
    ),
    _Entry("torch._lazy_clone", "copy-on-write", "`clone()`", _check_lazy_clone),
    _Entry(
        "torch.UntypedStorage._weak_ref",
        "see a lazy storage written or freed",
        "no copy-on-write",
        _check_weak_storage,
    ),
    _Entry("torch._foreach_copy_", "copy many tensors in one call", "a loop of `copy_`", _check_foreach_copy),
    _Entry(
        "torch._foreach_lerp_", "interpolate many tensors in one call", "a loop of `lerp_`", _check_foreach_lerp
    ),
    _Entry("torch._foreach_clone", "clone many tensors in one call", "a loop of `clone`", _check_foreach_clone),
    _Entry(
        "torch._C._autograd._unsafe_set_version_counter",
        "tell whether two tensors share a version counter",
        "unknown is reported",
        _check_version_counter,
    ),
)

_check_lock = threading.Lock()


@functools.cache
def _checked(name: str) -> FastPath:
    entry = next(e for e in _ENTRIES if e.name == name)
    outcome: list[FastPath] = []

    def run() -> None:
        try:
            works, detail = True, entry.check()
        except Exception as error:  # noqa: BLE001  # a private function may fail in any way; that is the question
            lines = str(error).strip().splitlines() or [type(error).__name__]
            works, detail = False, lines[0]
        outcome.append(FastPath(name, entry.purpose, works, detail, entry.fallback))

    # On a thread of its own, where no mode of the caller's (a default device, a fake-tensor mode, inference
    # mode) can decide what the check sees.
    thread = threading.Thread(target=run, name="torchcopy-self-check")
    thread.start()
    thread.join()
    return outcome[0]


def _renew_check_lock() -> None:
    """A thread that was inside the lock when the process was forked does not exist in the child."""
    global _check_lock
    _check_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_check_lock)


def works(name: str) -> bool:
    """Whether the entry point called `name` passed its self-check on the installed torch."""
    with _check_lock:
        return _checked(name).works


def fast_paths() -> tuple[FastPath, ...]:
    """What the self-check found for every private entry point torchcopy would like to use."""
    with _check_lock:
        return tuple(_checked(entry.name) for entry in _ENTRIES)


# --- the wrappers --------------------------------------------------------------------------------------------


def storage_address(t: Tensor) -> int:
    """Address of the first byte of `t`'s storage; 0 where there are no bytes (meta). Never materialises."""
    if works("torch._C._data_address"):
        return int(_C._data_address(t))
    return int(t.data_ptr() - t.storage_offset() * t.element_size()) if t.numel() else 0


def storage_addresses(tensors: Iterable[Tensor]) -> list[int]:
    """`storage_address` of each tensor; raises where one has no storage."""
    return list(map(_C._data_address if works("torch._C._data_address") else storage_address, tensors))


def storage_id(t: Tensor) -> int:
    """A number that two live tensors share exactly when they view the same storage object."""
    if works("torch._C._storage_id"):
        return int(_C._storage_id(t))
    return storage_address(t)


def storage_ids(tensors: Iterable[Tensor]) -> list[int]:
    """`storage_id` of each tensor."""
    if works("torch._C._storage_id"):
        return list(map(_C._storage_id, tensors))
    return list(map(storage_id, tensors))


def storages_and_ids(tensors: Sequence[Tensor]) -> tuple[list[torch.UntypedStorage], list[int]]:
    """The storage of each tensor, and numbers that tell them apart as long as these are held.

    Raises:
        RuntimeError: one has no storage.
    """
    storages = list(map(Tensor.untyped_storage, tensors))
    if works("torch.Tensor.untyped_storage"):
        return storages, list(map(id, storages))
    return storages, storage_ids(tensors)


def is_lazy(t: Tensor) -> bool:
    """Whether `t`'s storage is copy-on-write: shared with a lazy clone until somebody writes."""
    try:
        return works("torch._lazy_clone") and bool(_C._is_cow_tensor(t))
    except RuntimeError:  # layouts without a storage
        return False


def lazy_clone(t: Tensor) -> Tensor:
    """A copy-on-write clone of `t`, or an eager `clone()` where torch cannot make one.

    Torch refuses storages that it does not own, such as those of `torch.from_numpy`.
    """
    if works("torch._lazy_clone"):
        try:
            return strict_lazy_clone(t)
        except RuntimeError:
            pass
    return t.clone()


def strict_lazy_clone(t: Tensor) -> Tensor:
    """`torch._lazy_clone(t)` as it is, with the errors it raises."""
    lazy: Tensor = torch._lazy_clone(t)
    return lazy


def copy_on_write_works() -> bool:
    """Whether lazy clones can be made and watched, which is what they need to be safe across threads."""
    names = ("torch._lazy_clone", "torch._C._data_address", "torch.UntypedStorage._weak_ref")
    return all(map(works, names))


def strict_lazy_clones(tensors: Sequence[Tensor]) -> list[Tensor]:
    """`torch._lazy_clone` of each tensor, with the errors it raises."""
    return list(map(torch._lazy_clone, tensors))


def weak_storages(tensors: Sequence[Tensor]) -> list[int]:
    """A weak reference to the storage of each tensor, for `StorageProbe`; each has to be freed once."""
    return list(map(_UntypedStorage._weak_ref, map(Tensor.untyped_storage, tensors)))


def free_weak_storages(weak: Iterable[int]) -> None:
    """Frees weak references of `weak_storages`. Until then the storage's header, not its bytes, stays allocated."""
    deque(map(_UntypedStorage._free_weak_ref, weak), maxlen=0)


def expired_storages(weak: Sequence[int]) -> list[bool]:
    """Whether the storage behind each weak reference is gone."""
    return list(map(_UntypedStorage._expired, weak))


class StorageProbe:
    """Looks at storages through weak references, without writing. One thread at a time."""

    def __init__(self) -> None:
        self._tensors: dict[torch.device, Tensor] = {}
        self._last: Tensor | None = None

    def look(self, weak: Sequence[int]) -> list[int | None]:
        """Address of each storage's bytes; None where the storage is gone."""
        return self._ask(_C._data_address, weak)

    def are_lazy(self, weak: Sequence[int]) -> list[bool | None]:
        """Whether each storage is copy-on-write; None where it is gone."""
        return self._ask(_C._is_cow_tensor, weak)

    def _ask(self, question: Callable[[Tensor], _T], weak: Sequence[int]) -> list[_T | None]:
        with below_autograd():
            try:
                if self._last is not None:
                    # One at a time goes through all `map`s, so that no storage is kept longer than it takes.
                    storages = map(_UntypedStorage._new_with_weak_ptr, weak)
                    return list(map(question, map(self._last.set_, storages)))
            except (TypeError, RuntimeError):  # one is gone, or on another device
                pass
            finally:
                self._look_away()
            try:
                return [self._ask_one(question, reference) for reference in weak]
            finally:
                self._look_away()

    def _ask_one(self, question: Callable[[Tensor], _T], weak: int) -> _T | None:
        storage = _UntypedStorage._new_with_weak_ptr(weak)
        if storage is None:
            return None
        tensor = self._tensors.get(storage.device)
        if tensor is None:
            with torch.inference_mode(False):
                tensor = torch.empty(0, dtype=torch.uint8, device=storage.device)
            self._tensors[storage.device] = tensor
        if tensor is not self._last:
            self._look_away()
        self._last = tensor
        return question(tensor.set_(storage))

    def _look_away(self) -> None:
        """Lets go of the storage looked at last."""
        if self._last is not None:
            self._last.set_()  # type: ignore[call-overload]  # no arguments: an empty storage


def foreach_copy_(targets: Sequence[Tensor], sources: Sequence[Tensor], *, non_blocking: bool = False) -> None:
    """Copies `sources[i]` into `targets[i]` for all i, in one call where torch can."""
    if targets and works("torch._foreach_copy_"):
        try:
            torch._foreach_copy_(list(targets), list(sources), non_blocking=non_blocking)
        except RuntimeError:
            if not _refuses_lists_with(targets):
                raise
        else:
            return
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source, non_blocking=non_blocking)


def foreach_lerp_(targets: Sequence[Tensor], ends: Sequence[Tensor], weight: float) -> None:
    """`targets[i].lerp_(ends[i], weight)` for all i, in one call where torch can."""
    if targets and works("torch._foreach_lerp_"):
        try:
            torch._foreach_lerp_(list(targets), list(ends), weight)
        except RuntimeError:
            if not _refuses_lists_with(targets):
                raise
        else:
            return
    for target, end in zip(targets, ends, strict=True):
        target.lerp_(end, weight)


def _refuses_lists_with(targets: Iterable[Tensor]) -> bool:
    """Whether PyTorch writes to no list with these: conjugate and negative views. It says so before it writes."""
    return any(t.is_conj() or t.is_neg() for t in targets)


def foreach_clone(sources: Sequence[Tensor]) -> list[Tensor]:
    """A clone of each source, in one call where torch can."""
    if works("torch._foreach_clone"):
        try:
            return list(torch._foreach_clone(list(sources)))
        except NotImplementedError:  # one of them has a layout that it does not know
            pass
    return [t.clone() for t in sources]


def flip_negation(t: Tensor) -> Tensor:
    """A view of `t` with its lazy-negation bit flipped (see `torch.Tensor.is_neg`)."""
    flipped: Tensor = torch._neg_view(t)
    return flipped


_version_lock = threading.Lock()


def shares_version_counter(a: Tensor, b: Tensor) -> bool | None:
    """Whether a write to one of `a`, `b` is seen in the other's `_version`; None where that cannot be told.

    Counters that differ in value are two counters, and nothing is touched. Where the values are equal, `a`'s
    counter is moved and put back at once: PyTorch offers no way to compare the counters themselves.
    """
    if a.is_inference() or b.is_inference():
        return None
    if a is b:
        return True
    if a._version != b._version:
        return False
    if not works("torch._C._autograd._unsafe_set_version_counter"):
        return None
    with _version_lock:
        before = a._version
        probe = before + 1
        _C._autograd._unsafe_set_version_counter((a,), (probe,))
        try:
            return b._version == probe
        finally:
            _C._autograd._unsafe_set_version_counter((a,), (before,))


@contextmanager
def every_warning() -> Iterator[None]:
    """Lets PyTorch repeat the warnings that it otherwise gives once a process."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


@functools.cache
def wake_profiler() -> None:
    """Starts and stops the profiler once: its library complains when it first wakes on another thread."""
    # Without this, the library writes a line to stderr at each start and stop.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    if not torch.autograd.profiler._is_profiler_enabled:
        with torch.autograd.profiler.profile(use_kineto=True, profile_memory=True):
            pass


def profiled_allocations(call: Callable[[], object]) -> list[int] | None:
    """Runs `call` and lists what PyTorch's CPU allocator gave (positive) and took back (negative), in bytes.

    None where the profiler cannot be had, for example because one is running already; `call` has run then too.
    """
    if torch.autograd.profiler._is_profiler_enabled:  # a second session would end the user's
        call()
        return None
    wake_profiler()
    with torch.autograd.profiler.profile(use_kineto=True, profile_memory=True) as profiler:
        call()
    events = profiler.kineto_results.events()
    memory = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    return [size for _, size in sorted(memory, key=lambda event: event[0])]


@contextmanager
def outside_modes() -> Iterator[None]:
    """Runs the body unseen by the caller's modes (fake tensors, a default device, an auditor) and subclasses."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _C.DisableTorchFunction(), _disable_current_modes():
        yield


@contextmanager
def without_torch_function() -> Iterator[None]:
    """Runs the body as if tensor subclasses had no `__torch_function__`."""
    with _C.DisableTorchFunctionSubclass():
        yield


def in_dispatch_mode() -> bool:
    """Whether a dispatch mode of the caller's (fake tensors, an auditor) would see what is called now."""
    return bool(_C._len_torch_dispatch_stack())


@contextmanager
def below_autograd() -> Iterator[None]:
    """Runs the body as under `torch.no_grad()`, and unseen by subclasses and function modes: a tenth faster."""
    guard = getattr(_C, "_AutoDispatchBelowAutograd", torch.no_grad)
    with _C.DisableTorchFunction(), guard():
        yield


def is_functorch_wrapper(t: Tensor) -> bool:
    """Whether `t` stands for another tensor inside `torch.vmap`, `torch.func.grad` and the like."""
    return bool(_C._functorch.is_functorch_wrapped_tensor(t))
