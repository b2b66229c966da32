"""The probe: what a copy method really does, found out by doing it.

Nothing is looked up. A method runs on sources that the probe builds; gradients are sent through the result,
both sides are written, and the allocator is asked. A method that lies about any of it is caught.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from .. import _torch_private
from .._errors import InputError
from .._tensors import describe, dtype_name
from .allocation import measure_allocation
from .catalogue import CopyMethod, find_method, find_methods
from .observe import (
    changed,
    error_line,
    gradient,
    is_lazy_pair,
    layout,
    node_name,
    same_values,
    sharing,
    state,
    warning_texts,
)
from .sources import (
    SourceKind,
    available_kinds,
    build_source,
    parse_device,
    parse_dtype,
)
from .undisturbed import run_undisturbed

PROBE_NUMEL = 120
_ALLOCATION_NUMEL = 4096


@dataclasses.dataclass(frozen=True)
class SourceFacts:
    """What a method did to one kind of source. Where it raised, `error` says so and the answers are None.

    Attributes:
        source: the kind of source.
        requires_grad: of the result.
        is_leaf: of the result.
        grad_fn: name of the result's node in the graph.
        graph: whether a gradient sent into the result reaches the source.
        gradient_correct: whether what arrives is what was sent.
        gradient_error: what autograd raised instead.
        is_source: whether the result is the very tensor that was given.
        shares_memory: whether a write to either side is seen on the other.
        lazy: whether the bytes are shared copy-on-write until a write.
        shares_version_counter: whether a write to the result moves the source's `_version`; None if it has none.
        values_kept: same values and shape, in the same dtype or another.
        special_values_kept: NaN and infinities survive; None for dtypes without them.
        dtype_kept: same dtype.
        device_kept: same device.
        strides_kept: same strides.
        memory_format_kept: `contiguous`, `channels_last` or neither, as the source.
        type_kept: same Python type (an `nn.Parameter` stays one).
        attributes_kept: a Python attribute set on the source is on the result.
        grad_kept: the source's `.grad` is on the result too, by value; None for sources that have none.
        source_changed: whether the call changed the source's values, `_version` or `requires_grad`.
        warnings: the warnings given.
        error: the exception raised.
        allocated_bytes: allocated during the call, temporary bytes included.
        peak_bytes: most held at one moment of the call.
        kept_bytes: held after the call.
        source_bytes: bytes of the source's own elements in that measurement.
        result: the result in short, `float32[120] cpu`.
    """

    source: SourceKind
    requires_grad: bool | None = None
    is_leaf: bool | None = None
    grad_fn: str | None = None
    graph: bool | None = None
    gradient_correct: bool | None = None
    gradient_error: str | None = None
    is_source: bool | None = None
    shares_memory: bool | None = None
    lazy: bool | None = None
    shares_version_counter: bool | None = None
    values_kept: bool | None = None
    special_values_kept: bool | None = None
    dtype_kept: bool | None = None
    device_kept: bool | None = None
    strides_kept: bool | None = None
    memory_format_kept: bool | None = None
    type_kept: bool | None = None
    attributes_kept: bool | None = None
    grad_kept: bool | None = None
    source_changed: bool | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None
    allocated_bytes: int | None = None
    peak_bytes: int | None = None
    kept_bytes: int | None = None
    source_bytes: int | None = None
    result: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return {**dataclasses.asdict(self), "warnings": list(self.warnings)}


@dataclasses.dataclass(frozen=True)
class MethodFacts:
    """What one method does, on every kind of source.

    Attributes:
        method: the catalogue's entry.
        device: where it was probed.
        dtype: as what.
        sources: the facts for each kind of source, the main one first.
    """

    method: CopyMethod
    device: str
    dtype: str
    sources: tuple[SourceFacts, ...]

    @property
    def main(self) -> SourceFacts:
        """The facts for the non-leaf source that requires grad; for integers, for the contiguous one."""
        return self.sources[0]

    def on(self, kind: SourceKind) -> SourceFacts:
        """The facts for one kind of source.

        Raises:
            InputError: the method was not probed on that kind.
        """
        for facts in self.sources:
            if facts.source == kind:
                return facts
        kinds = ", ".join(facts.source for facts in self.sources)
        raise InputError(f"{self.method.id!r} was not probed on {kind!r} as {self.dtype}: there are {kinds}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the main source's facts at the top, the other kinds under keys of their own."""
        method = self.method.to_dict()
        method["method"] = method.pop("id")
        return {
            "method": method.pop("method"),
            "code": method.pop("code"),
            **self.main.to_dict(),
            "device": self.device,
            "dtype": self.dtype,
            **method,
            **{facts.source: facts.to_dict() for facts in self.sources[1:]},
        }


def probe(
    method: str | CopyMethod,
    *,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype = torch.float32,
) -> MethodFacts:
    """Finds out what a way to copy does, by doing it on tensors built for the purpose.

    The method decides what is shared, what stays in the graph and what is synchronised: that is what comes back.
    Tensors of the caller are neither read nor changed. On CUDA the device is synchronised.

    Args:
        method: an id of the catalogue, `package.module:function`, or an entry.
        device: where to probe it.
        dtype: with what dtype.

    Raises:
        InputError: the method, the device or the dtype does not exist.

    Example:
        >>> import torchcopy as tc
        >>> facts = tc.probe("detach").main
        >>> facts.shares_memory, facts.graph, facts.shares_version_counter
        (True, False, True)
        >>> tc.probe("deepcopy").main.error[:44]
        'RuntimeError: Only Tensors created explicitl'
    """
    entry = method if isinstance(method, CopyMethod) else find_method(method)
    place, kind = parse_device(device), parse_dtype(dtype)
    probes = [_SourceProbe(entry, source, place, kind) for source in available_kinds(kind)]
    facts = run_undisturbed(lambda: tuple(each.run() for each in probes))
    return MethodFacts(entry, str(place), dtype_name(kind), facts)


def truth_table(
    methods: Iterable[str | CopyMethod] | None = None,
    *,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype = torch.float32,
    on_method: Callable[[str], object] | None = None,
) -> tuple[MethodFacts, ...]:
    """Probes many methods, the whole catalogue by default. See `probe`.

    Args:
        methods: ids or entries of the methods.
        device: where to probe them.
        dtype: with what dtype.
        on_method: called with the id of each method before it is probed.

    Raises:
        InputError: a method, the device or the dtype does not exist; nothing was probed then.
    """
    entries, place, kind = find_methods(methods), parse_device(device), parse_dtype(dtype)
    rows = []
    for entry in entries:
        if on_method is not None:
            on_method(entry.id)
        rows.append(probe(entry, device=place, dtype=kind))
    return tuple(rows)


@dataclasses.dataclass(frozen=True)
class _SourceProbe:
    """One method on one kind of source. Each question gets a source of its own, so that none disturbs another."""

    method: CopyMethod
    kind: SourceKind
    device: torch.device
    dtype: torch.dtype

    def _source(self, numel: int = PROBE_NUMEL) -> Tensor:
        return build_source(self.kind, numel=numel, device=self.device, dtype=self.dtype).tensor

    def run(self) -> SourceFacts:
        try:
            return self._observe()
        except BaseException as error:  # noqa: BLE001  # a result that cannot even be looked at, or `sys.exit()`
            return SourceFacts(self.kind, error=f"cannot be observed: {error_line(error)}")

    def _observe(self) -> SourceFacts:
        with torch.enable_grad(), warnings.catch_warnings(record=True) as caught, _torch_private.every_warning():
            warnings.simplefilter("always")
            source = self._source()
            before = state(source)
            caught.clear()
            try:
                result: object = self.method.run(source)
            except BaseException as error:  # noqa: BLE001  # what a method raises is one of the answers
                return SourceFacts(self.kind, warnings=warning_texts(caught), error=error_line(error))
            messages = warning_texts(caught)
            if not isinstance(result, Tensor) or result.is_nested:
                what = type(result).__name__ if not isinstance(result, Tensor) else "a nested tensor"
                return SourceFacts(self.kind, warnings=messages, error=f"it returned {what}, not a plain tensor")
            facts: dict[str, Any] = {
                "warnings": messages,
                "requires_grad": result.requires_grad,
                "is_leaf": result.is_leaf,
                "grad_fn": node_name(result),
                "is_source": result is source,
                "source_changed": changed(before, state(source)),
                "type_kept": type(result) is type(source),
                "result": describe(result),
                "lazy": is_lazy_pair(source, result),
                **layout(source, result),
                **gradient(source, result),
            }
            # The writes come last: they change both sides.
            facts.update(sharing(source, result))
            facts["special_values_kept"] = self._special_values()
            facts["attributes_kept"], facts["grad_kept"] = self._extras()
            facts.update(self._allocation())
        return SourceFacts(self.kind, **facts)

    def _special_values(self) -> bool | None:
        if not (self.dtype.is_floating_point or self.dtype.is_complex):
            return None
        source = self._source()
        specials = torch.tensor([float("nan"), float("inf"), -float("inf")], device=self.device)
        with torch.no_grad():
            # Along the last dimension, which no source repeats; a dtype without infinities rounds them its way.
            row = source[(0,) * (source.dim() - 1)]
            row[: min(3, row.numel())].copy_(specials[: min(3, row.numel())])
            expected = source.detach().clone()
        try:
            return same_values(expected, self.method.run(source))
        except Exception:  # noqa: BLE001  # a method that ran on plain values and raises on these lost them
            return False

    def _extras(self) -> tuple[bool | None, bool | None]:
        source = self._source()
        source.probe_tag = "kept"  # type: ignore[attr-defined]
        has_grad = source.is_leaf and source.requires_grad
        if has_grad:
            source.grad = torch.ones_like(source)
        try:
            result = self.method.run(source)
        except Exception:  # noqa: BLE001  # an attribute or a gradient that makes a method raise is not kept
            return False, False if has_grad else None
        tag_kept = getattr(result, "probe_tag", None) == "kept"
        if not has_grad:
            return tag_kept, None
        grad = result.grad if result.is_leaf else None
        return tag_kept, grad is not None and same_values(torch.ones_like(source), grad)

    def _allocation(self) -> dict[str, int | None]:
        source = self._source(_ALLOCATION_NUMEL)
        result, measured = measure_allocation(lambda: self.method.run(source), self.device)
        del result
        if measured is None:
            return {}
        return {**measured.to_dict(), "source_bytes": source.numel() * source.element_size()}
