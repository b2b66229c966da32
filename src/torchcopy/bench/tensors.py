"""Copy methods on tensors: built to order in every size and kind, or the caller's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor

from .. import _torch_private
from .._errors import InputError
from .._tensors import describe, dtype_name, first_byte, has_storage, same_storage, span_bytes
from ..copying.copy_on_write.anchors import let_go
from ..semantics.catalogue import CopyMethod, find_methods, other_dtype
from ..semantics.machine import describe_machine
from ..semantics.sources import (
    SourceKind,
    available_kinds,
    build_source,
    parse_device,
    parse_dtype,
    parse_source_kind,
)
from .cases import Case, Method
from .compare import check_comparable
from .limit import tensor_limit
from .neighbours import watch_neighbours
from .preflight import check_max_seconds, check_memory, format_size, free_memory_bytes, parse_sizes
from .records import BenchReport, Memory
from .runner import run_cases

DEFAULT_SOURCES: tuple[SourceKind, ...] = ("no_grad",)
"""The article copies `torch.randn(n)`: no gradient asked for."""


def bench_tensors(
    methods: Iterable[str] | None = None,
    *,
    sizes: Iterable[str | int] | None = None,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype = torch.float32,
    sources: Iterable[str] | None = None,
    max_seconds: float = 60.0,
    against: BenchReport | None = None,
    on_step: Callable[[str], object] | None = None,
) -> BenchReport:
    """Measures what every way to copy a tensor costs here: time, memory, and how far it is from the limit.

    What is timed is one call and the giving back of its result: allocating, copying, freeing. Every method runs
    on tensors built for the purpose, so that no tensor of the caller is shared, read or changed; whether a
    result shares memory or stays in the graph is up to the method. Each result is freed before the next call,
    and the graph of a source does not grow. The device is synchronised.

    Args:
        methods: ids of the catalogue or `package.module:function`; all of the catalogue if not given.
        sizes: numbers of elements: `1000`, `"2^20"`, `"1M"`, `"2^0..2^14"`.
        device: where.
        dtype: as what.
        sources: kinds of source; a contiguous tensor that requires no grad if not given.
        max_seconds: time to spend. What does not fit is left out and named in the report.
        against: an older report that the result will be compared with; refused if it cannot be.
        on_step: called with words for each step.

    Raises:
        InputError: a method, size, device, dtype or source that cannot be used, or sizes beyond the free memory.
            Nothing was measured then.

    Example:
        >>> import torchcopy as tc
        >>> report = tc.bench_tensors(["detach", "clone"], sizes=[4096], max_seconds=1)
        >>> [(m.method, m.memory, m.allocation.peak_bytes) for m in report.measurements]
        [('detach', 'share', 0), ('clone', 'own', 16384)]
    """
    started = time.perf_counter()
    entries = find_methods(methods)
    numels = parse_sizes(sizes)
    seconds = check_max_seconds(max_seconds)
    kind = parse_dtype(dtype)
    kinds = _parse_sources(sources, kind)
    place = parse_device(device)
    for source in kinds:
        _check_size(source, numels[-1], entries, place, kind)
    if against is not None:
        keys = product((entry.id for entry in entries), kinds, numels)
        name = dtype_name(kind)
        check_comparable(against, kind="tensors", subject="tensors", device=str(place), dtype=name, keys=keys)
    cases = [_built_case(source, numel, place, kind) for source in kinds for numel in numels]
    others = watch_neighbours()
    outcome = run_cases(
        cases, _methods(entries), device=place, max_seconds=seconds, on_step=on_step, started=started
    )
    return BenchReport(
        kind="tensors",
        subject="tensors",
        machine=describe_machine(),
        device=str(place),
        dtype=dtype_name(kind),
        sources=kinds,
        sizes=numels,
        methods=tuple(entry.id for entry in entries),
        limits=outcome.limits,
        measurements=outcome.measurements,
        max_seconds=seconds,
        seconds=outcome.seconds,
        others_share=others(),
    )


def bench_tensor_values(
    tensors: Mapping[str, Tensor],
    methods: Iterable[str] | None = None,
    *,
    max_seconds: float = 60.0,
    against: BenchReport | None = None,
    on_step: Callable[[str], object] | None = None,
) -> BenchReport:
    """Measures every way to copy on tensors of your own: weights, a batch, anything with a name.

    What is timed is one call and the giving back of its result. The tensors are read and never written; methods
    that share memory share it with them until their result is dropped, at once. Lazy clones and forks leave a
    tensor copy-on-write with one owner, which costs nothing at its next write and keeps the bytes where they are.
    No other thread may write the tensors meanwhile. The device is synchronised.

    Args:
        tensors: the tensors, by the name that the report shall give them; all on one device.
        methods: ids of the catalogue or `package.module:function`; all of the catalogue if not given.
        max_seconds: time to spend. What does not fit is left out and named in the report.
        against: an older report that the result will be compared with; refused if it cannot be.
        on_step: called with words for each step.

    Raises:
        InputError: no tensors, one that is empty, sparse or without values, tensors on several devices, or too
            little free memory. Nothing was measured then.
    """
    started = time.perf_counter()
    entries = find_methods(methods)
    seconds = check_max_seconds(max_seconds)
    place = _check_values(tensors)
    dtypes = sorted({dtype_name(t.dtype) for t in tensors.values()})
    largest = max(t.numel() * t.element_size() for t in tensors.values())
    instead = "free some memory, or leave the largest tensor out"
    check_memory(3 * largest, place, what="measuring the copies of these tensors", instead=instead)
    if against is not None:
        keys = ((entry.id, name, t.numel()) for entry in entries for name, t in tensors.items())
        subject, name = "tensors of your own", ", ".join(dtypes)
        check_comparable(against, kind="values", subject=subject, device=str(place), dtype=name, keys=keys)
    cases = [_value_case(name, t) for name, t in tensors.items()]
    others = watch_neighbours()
    outcome = run_cases(
        cases, _methods(entries), device=place, max_seconds=seconds, on_step=on_step, started=started
    )
    return BenchReport(
        kind="values",
        subject="tensors of your own",
        machine=describe_machine(),
        device=str(place),
        dtype=", ".join(dtypes),
        sources=tuple(tensors),
        sizes=tuple(sorted({t.numel() for t in tensors.values()})),
        methods=tuple(entry.id for entry in entries),
        limits=outcome.limits,
        measurements=outcome.measurements,
        max_seconds=seconds,
        seconds=outcome.seconds,
        others_share=others(),
    )


# --- checks --------------------------------------------------------------------------------------------------


def _parse_sources(names: Iterable[str] | None, dtype: torch.dtype) -> tuple[SourceKind, ...]:
    if isinstance(names, str):
        names = (names,)
    kinds = DEFAULT_SOURCES if names is None else tuple(parse_source_kind(name) for name in dict.fromkeys(names))
    if not kinds:
        raise InputError("no source is left to copy: give one, such as `--source no_grad`")
    for kind in kinds:
        if kind not in available_kinds(dtype):
            raise InputError(
                f"tensors of {dtype_name(dtype)} cannot require grad, so there is no source {kind!r} of them: "
                f"use one of {', '.join(available_kinds(dtype))}"
            )
    return kinds


def _check_size(
    kind: SourceKind, numel: int, entries: Sequence[CopyMethod], device: torch.device, dtype: torch.dtype
) -> None:
    item = dtype.itemsize

    def needed(count: int) -> int:
        storage = _storage_numel(kind, count) * item
        results = [2 * count * item]  # a result, and what a method may need on its way; or the limit's buffer
        if any(entry.id == "to_other_dtype" for entry in entries):
            results.append(count * other_dtype(dtype).itemsize)
        if any(entry.id == "deepcopy" for entry in entries):
            results.append(storage)
        return storage + max(results)

    free = free_memory_bytes(device)
    fits = 0 if free is None else next((k for k in range(62, 0, -1) if needed(2**k) <= 0.9 * free), 0)
    check_memory(
        needed(numel),
        device,
        what=f"a {kind} {dtype_name(dtype)} source of {format_size(numel)} elements with its copy",
        instead=f"the largest power of two that fits is 2^{fits}",
    )


def _storage_numel(kind: SourceKind, numel: int) -> int:
    """Elements in the storage of such a source, the same proportion for all sizes."""
    small = build_source(kind, numel=64, device=torch.device("cpu"), dtype=torch.float32).tensor
    whole, fraction = divmod(small.untyped_storage().nbytes() // small.element_size(), 64)
    return numel * whole if not fraction else numel


def _check_values(tensors: Mapping[str, Tensor]) -> torch.device:
    if not isinstance(tensors, Mapping) or not tensors:
        raise InputError(f"give the tensors to copy as a mapping of names to tensors; got {type(tensors).__name__}")
    for name, t in tensors.items():
        if not isinstance(t, Tensor):
            raise InputError(f"tensors[{name!r}] is {type(t).__name__}, not a tensor: leave it out")
        if t.layout != torch.strided or not has_storage(t) or t.is_meta:
            raise InputError(
                f"tensors[{name!r}] ({describe(t)}, {t.layout}) has no dense values to copy: leave it out"
            )
        if t.numel() == 0:
            raise InputError(f"tensors[{name!r}] ({describe(t)}) is empty, there is nothing to copy: leave it out")
    devices = {t.device for t in tensors.values()}
    if len(devices) > 1:
        names = ", ".join(sorted(map(str, devices)))
        raise InputError(f"the tensors lie on {names}: measure those of one device at a time")
    return next(iter(devices))


# --- cases ---------------------------------------------------------------------------------------------------


def _methods(entries: Sequence[CopyMethod]) -> list[Method[Tensor]]:
    def prepare(run: Callable[[Tensor], Tensor], source: Tensor) -> Callable[[], object]:
        return lambda: run(source)

    return [Method(entry.id, entry.code, partial(prepare, entry.run)) for entry in entries]


def _built_case(kind: SourceKind, numel: int, device: torch.device, dtype: torch.dtype) -> Case[Tensor]:
    return Case(
        source=kind,
        numel=numel,
        bytes=numel * dtype.itemsize,
        tensors=1,
        build=partial(lean_source, kind, numel=numel, device=device, dtype=dtype),
        limit=tensor_limit,
        look=look_at_tensor,
        settle=lambda t: let_go([t]),
    )


def _value_case(name: str, t: Tensor) -> Case[Tensor]:
    return Case(
        source=name,
        numel=t.numel(),
        bytes=t.numel() * t.element_size(),
        tensors=1,
        build=lambda: t,
        limit=tensor_limit,
        look=look_at_tensor,
        settle=lambda t: let_go([t]),
    )


def lean_source(kind: SourceKind, *, numel: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """A source as `build_source` makes it, that never keeps more than its own storage alive.

    Nothing is shared with any other tensor, and nothing is synchronised.
    """
    if kind != "non_leaf":
        return build_source(kind, numel=numel, device=device, dtype=dtype).tensor
    # Grown from one element, for the graph keeps what a result came from.
    return torch.ones(1, device=device, dtype=dtype, requires_grad=True).expand(numel).contiguous()


def look_at_tensor(source: Tensor, result: Any) -> tuple[bool | None, Memory]:
    """Whether the result begins at another address than the source, and whose memory it has.

    Reads addresses without writing, so that a lazy clone stays lazy.

    Raises:
        TypeError: the result is no tensor.
    """
    if not isinstance(result, Tensor):
        raise TypeError(f"it returned {type(result).__name__}, not a tensor")
    if result is source:
        return False, "share"
    if result.device != source.device or not (has_storage(source) and has_storage(result)):
        return None, "own"
    differs = first_byte(result) != first_byte(source)
    low, high = first_byte(source), first_byte(source) + span_bytes(source)
    overlaps = first_byte(result) < high and low < first_byte(result) + span_bytes(result)
    if not overlaps:
        return differs, "own"
    # Views of a lazy source are lazy too, but on its own storage object.
    lazy = _torch_private.is_lazy(result) and not same_storage(source, result)
    return differs, "lazy" if lazy else "share"
