"""What PyTorch does with streams of a device, told to an audit: copies, events, and who waits for what."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ... import _torch_private
from ..._tensors import first_byte, has_storage, span_bytes
from ..detectors.unsynchronized_reads import UnsynchronizedReads
from ..tracking.stream_order import Stream, StreamOrder
from .op_plans import OpPlan

if TYPE_CHECKING:
    from ..auditor import Auditor

Call = Callable[..., Any]
Wrap = Callable[[Any, str, Callable[[Call], Call]], None]
Tell = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None]  # whose method, its arguments, its result
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
        self._restore: list[Callable[[], None]] = []

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

    def install(self, wrap: Wrap, cuda: Any = torch.cuda, generic: Any = torch) -> None:
        """Puts wrappers around what waits, by `wrap(owner, name, make)`, and around the generic streams and events.

        Args:
            wrap: for owners whose attributes can be set.
            cuda: what stands for `torch.cuda`.
            generic: what has `Stream` and `Event` for all kinds of devices; `clear` puts their methods back.
        """
        order, name = self.order, self._kinds.name

        def synchronized(device: Any, _: Any, kwargs: Any, __: Any) -> None:
            device = kwargs.get("device", device)
            order.host_waits_for_streams(self._kinds.of_device(order.streams(), device))

        wrap(cuda, "synchronize", self._after(synchronized))
        if cuda is torch.cuda:
            wrap(torch.accelerator, "synchronize", self._after(synchronized))
        told = self._told(lambda _: name(cuda.current_stream()))
        for owner in ("Stream", "Event"):
            for method in ("synchronize", "query"):
                wrap(getattr(cuda, owner), method, self._after(told[f"{owner}.{method}"]))
        for method in ("record", "wait", "elapsed_time"):
            wrap(cuda.Event, method, self._after(told[f"Event.{method}"]))
        told = self._told(lambda event: self._kinds.current(event.device))
        for each, tell in told.items():
            owner, method = each.split(".")
            undo = _torch_private.wrap_method(getattr(generic, owner), method, self._after(tell, is_generic=True))
            if undo is not None:
                self._restore.append(undo)

    def clear(self) -> None:
        """Lets go of everything, and puts back the methods of the generic streams and events."""
        while self._restore:
            self._restore.pop()()
        self.reads.clear()

    def _after(self, tell: Tell, *, is_generic: bool = False) -> Callable[[Call], Call]:
        """Wrappers that call `tell` when a call has returned; generic streams may be those of another device."""

        def make(original: Call) -> Call:
            def call(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                if self._auditor.is_on and not torch.compiler.is_compiling():
                    owner: Any = args[0] if args else None
                    if not is_generic or self._kinds.has(owner.device):
                        try:
                            with self._auditor.lock:
                                tell(owner, args[1:], kwargs, result)
                                self.reads.waited()
                        except RecursionError:  # the program goes on; what was waited for is not known any more
                            self.reads.pending.clear()
                return result

            return call

        return make

    def _told(self, current: Callable[[Any], Stream]) -> dict[str, Tell]:
        """What each method of a stream or an event means, by class and name.

        Args:
            current: the stream that is meant where an event is given none.
        """
        order, name = self.order, self._kinds.name

        def given(event: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Stream:
            stream = args[0] if args else kwargs.get("stream")
            return current(event) if stream is None else name(stream)

        def stream_asked(stream: Any, _: Any, __: Any, is_done: bool) -> None:
            if is_done:
                order.host_waits_for_stream(name(stream))

        def event_asked(event: Any, _: Any, __: Any, is_done: bool) -> None:
            if is_done:
                order.host_waits_for_event(event)

        def both_have_happened(event: Any, args: Any, kwargs: Any, _: Any) -> None:
            order.host_waits_for_event(event)
            order.host_waits_for_event(args[0] if args else kwargs["end_event"])

        def waits_for(stream: Any, args: Any, kwargs: Any, _: Any) -> None:
            order.stream_waits(name(stream), args[0] if args else kwargs["event"])

        def waits_for_stream(stream: Any, args: Any, kwargs: Any, _: Any) -> None:
            order.stream_waits_for_stream(name(stream), name(args[0] if args else kwargs["stream"]))

        return {
            "Stream.synchronize": lambda stream, *_: order.host_waits_for_stream(name(stream)),
            "Stream.query": stream_asked,
            "Stream.record_event": lambda stream, _, __, event: order.records(name(stream), event),
            "Stream.wait_event": waits_for,
            "Stream.wait_stream": waits_for_stream,
            "Event.synchronize": lambda event, *_: order.host_waits_for_event(event),
            "Event.query": event_asked,
            "Event.record": lambda event, a, k, _: order.records(given(event, a, k), event),
            "Event.wait": lambda event, a, k, _: order.stream_waits(given(event, a, k), event),
            "Event.elapsed_time": both_have_happened,
        }


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
