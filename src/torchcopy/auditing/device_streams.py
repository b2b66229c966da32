"""What PyTorch does with streams of a device, told to an audit: copies, events, and who waits for what."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import _torch_private
from .._tensors import first_byte, has_storage, span_bytes
from .detectors.unsynchronized_reads import UnsynchronizedReads
from .op_plans import OpPlan
from .stream_order import Stream, StreamOrder

if TYPE_CHECKING:
    from .auditor import Auditor

Call = Callable[..., Any]
# What waits for the stream, because its result has a size, or is a value, that the host has to know.
_WAITS = frozenset(
    f"aten::{name}"
    for name in (
        "nonzero equal masked_select _unique2 unique_dim unique_consecutive repeat_interleave bincount"
    ).split()
)


class CudaStreams:
    """Which streams there are, in CUDA's words. The tests have another one, without a device."""

    def has(self, device: torch.device) -> bool:
        """Whether a device has streams that are followed."""
        return device.type == "cuda"

    def current(self, device: torch.device) -> Stream:
        """The stream that an operation on a device goes to."""
        return self.name(torch.cuda.current_stream(device))

    def name(self, stream: Any) -> Stream:
        """A name for a stream, the same for all objects that stand for it."""
        return stream.device_index, stream.stream_id

    def of_device(self, streams: list[Any], device: Any) -> list[Stream]:
        """Those of some streams that belong to a device."""
        index = device if isinstance(device, int) else None if device is None else torch.device(device).index
        if index is None:
            index = torch.cuda.current_device()
        return [stream for stream in streams if stream[0] == index]

    def is_asynchronous(self, target: Tensor) -> bool:
        """Whether a `non_blocking` copy to this memory of the host is still under way when the call returns."""
        return target.is_pinned()


class DeviceStreams:
    """Tells a detector what operations and calls do on the streams of a device."""

    def __init__(self, auditor: Auditor, kinds: Any = None) -> None:
        self._auditor = auditor
        self._kinds = CudaStreams() if kinds is None else kinds
        self.order = StreamOrder(weakref.WeakKeyDictionary())
        self.reads = UnsynchronizedReads(auditor.findings, auditor.storages, self.order)

    # --- operations -----------------------------------------------------------------------------------------------

    def copied(self, plan: OpPlan, args: Any, kwargs: Any, out: Any, site: int) -> None:
        """A copy was made; was it from a device, or to one?"""
        with _torch_private.without_torch_function():
            self._copied(plan, args, kwargs, out, site)

    def _copied(self, plan: OpPlan, args: Any, kwargs: Any, out: Any, site: int) -> None:
        for source, target in _pairs(plan, args, out):
            on_host = target.device.type == "cpu"
            device = source.device if on_host else target.device
            if (source.device.type == "cpu") == on_host or not self._kinds.has(device):
                continue
            stream = self._kinds.current(device)
            if not _is_non_blocking(plan, args, kwargs):
                self.order.host_waits_for_stream(stream)
                self.reads.waited()
            elif on_host and has_storage(target) and self._kinds.is_asynchronous(target):
                with self._auditor.lock:
                    self.reads.copied(stream, target, first_byte(target), span_bytes(target), site)

    def has_asked(self, tensor: Tensor) -> None:
        """A number was asked of a tensor on a device: the host has waited for it."""
        if self._kinds.has(tensor.device):
            self.order.host_waits_for_stream(self._kinds.current(tensor.device))
            self.reads.waited()

    def sees(self, plan: OpPlan, args: Any, kwargs: Any, tensors: list[Tensor], frame: FrameType) -> None:
        """An operation is about to read some tensors, while copies are pending; some wait for their stream."""
        if goes_to_device(plan, args, kwargs):
            return
        for t in tensors:
            if t.device.type == "cpu":
                self.read(t, lambda: self._auditor.sites.of(frame))
        on_device = next((t for t in tensors if self._kinds.has(t.device)), None)
        if on_device is not None:
            by_mask = plan.name == "aten::index" and any(t.dtype in (torch.bool, torch.uint8) for t in tensors)
            if by_mask or plan.name in _WAITS:
                self.has_asked(on_device)

    def read(self, tensor: Tensor, site: Callable[[], int]) -> None:
        """The host reads a tensor."""
        with _torch_private.without_torch_function(), self._auditor.lock:
            storage = _torch_private.storage_id(tensor) if has_storage(tensor) else 0
            if storage in self.reads.pending:
                self.reads.read(storage, first_byte(tensor), span_bytes(tensor), site())

    def array_made(self, tensor: Tensor, array: Any, site: int) -> None:
        """`tensor.numpy()` has returned `array`."""
        if self.reads.pending and has_storage(tensor):
            storage = _torch_private.storage_id(tensor)
            self.reads.array_made(array, storage, first_byte(tensor), span_bytes(tensor), site)

    # --- calls ----------------------------------------------------------------------------------------------------

    def install(self, wrap: Callable[[Any, str, Callable[[Call], Call]], None], cuda: Any = torch.cuda) -> None:
        """Puts wrappers around what waits, by `wrap(owner, name, make)`."""
        order, name = self.order, self._kinds.name

        def stream_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Stream:
            given = args[0] if args else kwargs.get("stream")
            return name(cuda.current_stream() if given is None else given)

        def after(told: Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None]) -> Callable[[Call], Call]:
            def make(original: Call) -> Call:
                def call(*args: Any, **kwargs: Any) -> Any:
                    result = original(*args, **kwargs)
                    if self._auditor.is_on and not torch.compiler.is_compiling():
                        with self._auditor.lock:
                            told(args[0] if args else None, args[1:], kwargs, result)
                            self.reads.waited()
                    return result

                return call

            return make

        def synchronized(device: Any, _: Any, kwargs: Any, __: Any) -> None:
            device = kwargs.get("device", device)
            order.host_waits_for_streams(self._kinds.of_device(order.streams(), device))

        def stream_asked(stream: Any, _: Any, __: Any, is_done: bool) -> None:
            if is_done:
                order.host_waits_for_stream(name(stream))

        def event_asked(event: Any, _: Any, __: Any, is_done: bool) -> None:
            if is_done:
                order.host_waits_for_event(event)

        wrap(cuda, "synchronize", after(synchronized))
        if cuda is torch.cuda:
            wrap(torch.accelerator, "synchronize", after(synchronized))
        wrap(cuda.Stream, "synchronize", after(lambda s, *_: order.host_waits_for_stream(name(s))))
        wrap(cuda.Stream, "query", after(stream_asked))
        wrap(cuda.Event, "synchronize", after(lambda event, *_: order.host_waits_for_event(event)))
        wrap(cuda.Event, "query", after(event_asked))
        wrap(cuda.Event, "record", after(lambda event, a, k, _: order.records(stream_of(a, k), event)))
        wrap(cuda.Event, "wait", after(lambda event, a, k, _: order.stream_waits(stream_of(a, k), event)))


def _pairs(plan: OpPlan, args: Any, out: Any) -> Iterator[tuple[Tensor, Tensor]]:
    targets, sources = (args[0], args[1]) if plan.copy == "into" else (out, args[0])
    if isinstance(targets, Tensor):
        targets, sources = (targets,), (sources,)
    for target, source in zip(targets, sources, strict=False):
        if isinstance(target, Tensor) and isinstance(source, Tensor):
            yield source, target


def _is_non_blocking(plan: OpPlan, args: Any, kwargs: Any) -> bool:
    given = kwargs.get("non_blocking", args[2] if plan.copy == "into" and len(args) > 2 else False)
    return bool(given)


def goes_to_device(plan: OpPlan, args: Any, kwargs: Any) -> bool:
    """Whether an operation copies to a device: what it reads of the host is read in the order of the stream."""
    if plan.copy == "into":
        targets = args[0] if isinstance(args[0], (list, tuple)) else (args[0],)
        return any(t.device.type != "cpu" for t in targets)
    device = kwargs.get("device") if plan.copy == "to" else None
    return device is not None and torch.device(device).type != "cpu"
