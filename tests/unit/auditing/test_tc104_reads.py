"""Reads of a copy that the host has not waited for, with streams and events that are simulated."""

import gc
import types

import numpy as np
import pytest
import torch

from torchcopy.auditing.auditor import Auditor
from torchcopy.auditing.watching.device_streams import DeviceStreams, goes_to_device
from torchcopy.auditing.watching.op_plans import plan_for

D2H = plan_for(torch.ops.aten._to_copy.default)
INTO = plan_for(torch.ops.aten.copy_.default)


class Streams:
    """Simulated: `meta` is the device, streams are objects with a name."""

    def __init__(self):
        self.now = "default"

    def has(self, device):
        return device.type == "meta"

    def current(self, device):
        return self.now

    def name(self, stream):
        return stream.name

    def of_device(self, streams, device):
        return streams if device is None else [each for each in streams if each == device]

    def is_asynchronous(self, target):
        return getattr(target, "pretends_to_be_pinned", True)


class Stream:
    def __init__(self, name="default", done=False):
        self.name, self.done = name, done

    def synchronize(self):
        return None

    def query(self):
        return self.done


class Event:
    device = torch.device("meta")

    def __init__(self, done=False):
        self.done = done

    def synchronize(self):
        return None

    def query(self):
        return self.done

    def record(self, stream=None):
        return None

    def wait(self, stream=None):
        return None

    def elapsed_time(self, end_event):
        return 1.0


class GenericStream(Stream):
    """As `torch.Stream`: its methods are C, and call no method of an event."""

    device = torch.device("meta")

    def record_event(self, event=None):
        return self.event_type() if event is None else event

    def wait_event(self, event):
        return None

    def wait_stream(self, stream):
        return None


class GenericEvent(Event):
    """As `torch.Event`, for a device of any kind."""

    def __init__(self, device="meta", done=False):
        self.device, self.done = torch.device(device), done


@pytest.fixture
def simulated():
    """The streams, and a module that stands for `torch.cuda`, wrapped as that is."""
    auditor = Auditor()
    streams = auditor.streams = DeviceStreams(auditor, Streams())
    auditor.pending_copies = streams.reads.pending
    cuda = types.SimpleNamespace(
        Stream=type("Stream", (Stream,), {}),
        Event=type("Event", (Event,), dict(vars(Event))),
        synchronize=lambda device=None: None,
    )
    cuda.generic = types.SimpleNamespace(
        Stream=type("Stream", (GenericStream,), {**vars(Stream), **vars(GenericStream)}),
        Event=type("Event", (GenericEvent,), {**vars(Event), **vars(GenericEvent)}),
    )
    cuda.generic.Stream.event_type = cuda.generic.Event
    cuda.current_stream = lambda: cuda.Stream("default")
    streams.install(lambda owner, name, make: setattr(owner, name, make(getattr(owner, name))), cuda, cuda.generic)
    patched = cuda.generic.Event.synchronize
    yield auditor, cuda
    auditor.stop()
    assert cuda.generic.Event.synchronize is not patched
    assert not auditor.pending_copies


def copied(auditor, target=None, non_blocking=True):
    """A copy from the device into `target`, as the mode tells it."""
    source = torch.empty(4, device="meta")
    target = torch.zeros(4) if target is None else target
    auditor.streams.copied(INTO, (target, source, non_blocking), {}, target, auditor.sites.here())
    return target


def read(auditor, tensor):
    auditor.streams.sees(plan_for(torch.ops.aten.sum.default), (tensor,), {}, [tensor], None)
    return [f.code for f in auditor.findings.as_records()]


WAITS = {
    "torch.cuda.synchronize()": lambda cuda, event: cuda.synchronize(),
    "stream.synchronize()": lambda cuda, event: cuda.Stream("default").synchronize(),
    "stream.query()": lambda cuda, event: cuda.Stream("default", done=True).query(),
    "event.synchronize()": lambda cuda, event: event.synchronize(),
    "event.query()": lambda cuda, event: (setattr(event, "done", True), event.query()),
    "the time between events": lambda cuda, event: event.elapsed_time(cuda.Event()),
    "by way of another stream": lambda cuda, event: (
        event.wait(cuda.Stream("side")),
        cuda.Stream("side").synchronize(),
    ),
}
NO_WAITS = {
    "nothing": lambda cuda, event: None,
    "another stream": lambda cuda, event: cuda.Stream("side").synchronize(),
    "a stream that is not done": lambda cuda, event: cuda.Stream("default").query(),
    "an event that has not happened": lambda cuda, event: event.query(),
    "an event that another stream waits for": lambda cuda, event: event.wait(cuda.Stream("side")),
    "an event that was never recorded": lambda cuda, event: cuda.Event().synchronize(),
    "another device": lambda cuda, event: cuda.synchronize("other"),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS.keys())
def test_a_read_after_a_wait_is_no_finding(simulated, wait):
    auditor, cuda = simulated
    target, event = copied(auditor), cuda.Event()
    event.record()
    wait(cuda, event)
    assert read(auditor, target) == []


@pytest.mark.parametrize("wait", NO_WAITS.values(), ids=NO_WAITS.keys())
def test_a_read_without_a_wait_is_a_finding(simulated, wait):
    auditor, cuda = simulated
    target, event = copied(auditor), cuda.Event()
    event.record()
    wait(cuda, event)
    assert read(auditor, target) == ["TC104"]
    [finding] = auditor.findings.as_records()
    assert [place.line.path.endswith(__file__.rsplit("/", 1)[-1]) for place in finding.places] == [True]
    assert "before it has arrived" in finding.message


GENERIC_WAITS = {
    "torch.Event.synchronize()": lambda there, event: event.synchronize(),
    "torch.Event.query()": lambda there, event: (setattr(event, "done", True), event.query()),
    "torch.Event.elapsed_time()": lambda there, event: there.Event().elapsed_time(event),
    "torch.Stream.synchronize()": lambda there, event: there.Stream().synchronize(),
    "torch.Stream.query()": lambda there, event: there.Stream(done=True).query(),
    "torch.Stream.record_event()": lambda there, event: there.Stream().record_event().synchronize(),
    "torch.Stream.record_event(event)": lambda there, event: (
        there.Stream().record_event(other := there.Event()),
        other.synchronize(),
    ),
    "torch.Stream.wait_event(event)": lambda there, event: (
        there.Stream("side").wait_event(event),
        there.Stream("side").synchronize(),
    ),
    "torch.Event.wait(stream)": lambda there, event: (
        event.wait(there.Stream("side")),
        there.Stream("side").synchronize(),
    ),
    "torch.Stream.wait_stream(stream)": lambda there, event: (
        there.Stream("side").wait_stream(there.Stream()),
        there.Stream("side").synchronize(),
    ),
}
GENERIC_NO_WAITS = {
    "nothing": lambda there, event: None,
    "another stream": lambda there, event: there.Stream("side").synchronize(),
    "a stream that is not done": lambda there, event: there.Stream().query(),
    "an event that has not happened": lambda there, event: event.query(),
    "an event that was never recorded": lambda there, event: there.Event().synchronize(),
    "a stream that waits": lambda there, event: there.Stream("side").wait_stream(there.Stream()),
    "a stream that waits for an event": lambda there, event: there.Stream("side").wait_event(event),
    "the stream waits for another": lambda there, event: (
        there.Stream().wait_stream(there.Stream("side")),
        there.Stream("side").synchronize(),
    ),
}


@pytest.mark.parametrize("wait", GENERIC_WAITS.values(), ids=GENERIC_WAITS.keys())
def test_a_read_after_a_generic_wait_is_no_finding(simulated, wait):
    auditor, cuda = simulated
    target, event = copied(auditor), cuda.generic.Event()
    event.record()
    wait(cuda.generic, event)
    assert read(auditor, target) == []


@pytest.mark.parametrize("wait", GENERIC_NO_WAITS.values(), ids=GENERIC_NO_WAITS.keys())
def test_a_read_without_a_generic_wait_is_a_finding(simulated, wait):
    auditor, cuda = simulated
    target, event = copied(auditor), cuda.generic.Event()
    event.record()
    wait(cuda.generic, event)
    assert read(auditor, target) == ["TC104"]


def test_an_event_of_a_device_that_is_not_followed_is_none(simulated):
    auditor, cuda = simulated
    target, event = copied(auditor), cuda.generic.Event("cpu")
    event.record()
    event.synchronize()
    assert read(auditor, target) == ["TC104"]


def test_generic_and_cuda_ones_know_of_each_other(simulated):
    auditor, cuda = simulated
    target, event = copied(auditor), cuda.generic.Event()
    event.record(cuda.Stream("default"))
    event.wait(cuda.Stream("side"))
    cuda.generic.Stream("side").synchronize()
    assert read(auditor, target) == []


METHODS = [(torch.Event, name) for name in ("synchronize", "query", "record", "wait", "elapsed_time")]
METHODS += [(torch.Stream, name) for name in ("synchronize", "query", "record_event", "wait_event", "wait_stream")]


def test_the_methods_of_torch_are_told_of_and_put_back():
    before = [vars(owner)[name] for owner, name in METHODS]
    auditor, told = Auditor(), []
    streams = DeviceStreams(auditor, Streams())
    streams._kinds.has = lambda device: told.append(device)
    streams.install(lambda *_: None)
    assert not {id(vars(owner)[name]) for owner, name in METHODS} & set(map(id, before))
    torch.Stream(device="cpu").query()
    assert told == [torch.device("cpu")]
    with pytest.raises(TypeError, match="query"):
        torch.Stream(device="cpu").query(1)
    streams.clear()
    assert [vars(owner)[name] for owner, name in METHODS] == before
    torch.Stream(device="cpu").query()
    assert len(told) == 1
    auditor.stop()


def test_a_wait_near_the_recursion_limit_is_done_and_raises_nothing(simulated, monkeypatch):
    auditor, cuda = simulated
    target = copied(auditor)

    def too_deep(_):
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(auditor.streams.order, "host_waits_for_event", too_deep)
    event = cuda.Event()
    event.record()
    assert event.synchronize() is None
    assert read(auditor, target) == []


def test_an_event_recorded_before_the_copy_is_no_wait(simulated):
    auditor, cuda = simulated
    event = cuda.Event()
    event.record()
    target = copied(auditor)
    event.synchronize()
    assert read(auditor, target) == ["TC104"]


@pytest.mark.parametrize("later", ["blocking copy", "item"])
def test_what_waits_for_the_same_stream_waits_for_the_copy(simulated, later):
    auditor, _ = simulated
    target = copied(auditor)
    if later == "item":
        auditor.streams.has_asked(torch.empty((), device="meta"))
    else:
        copied(auditor, non_blocking=False)
    assert read(auditor, target) == []


def test_what_waits_for_another_stream_does_not(simulated):
    auditor, _ = simulated
    target = copied(auditor)
    auditor.streams._kinds.now = "side"
    copied(auditor, non_blocking=False)
    assert read(auditor, target) == ["TC104"]


def test_an_operation_with_a_result_of_unknown_size_waits(simulated):
    auditor, _ = simulated
    target, on_device = copied(auditor), torch.empty(4, device="meta")
    auditor.streams.sees(plan_for(torch.ops.aten.nonzero.default), (on_device,), {}, [on_device], None)
    assert read(auditor, target) == []


def test_a_copy_into_pageable_memory_is_not_followed(simulated):
    auditor, _ = simulated
    target = torch.zeros(4)
    target.pretends_to_be_pinned = False
    copied(auditor, target)
    assert read(auditor, target) == []


def test_another_part_of_the_memory_may_be_read(simulated):
    auditor, _ = simulated
    buffer = torch.zeros(8)
    copied(auditor, buffer[4:])
    assert read(auditor, buffer[:4]) == []
    assert read(auditor, buffer[3:5]) == ["TC104"]


def test_an_array_that_outlives_the_wait_is_right_and_one_that_does_not_is_a_finding(simulated):
    auditor, cuda = simulated
    target = copied(auditor)
    array = target.numpy()
    auditor.streams.array_made(target, array, auditor.sites.here())
    cuda.synchronize()
    del array
    assert auditor.findings.as_records() == []
    copied(auditor, target)
    array = target.numpy()
    auditor.streams.array_made(target, array, auditor.sites.here())
    assert np.isfinite(array).all()
    del array
    assert [f.code for f in auditor.findings.as_records()] == ["TC104"]


def test_a_copy_back_to_the_device_is_no_read_of_the_host():
    host, device = torch.zeros(4), torch.empty(4, device="meta")
    assert goes_to_device(INTO, (device, host), {})
    assert goes_to_device(D2H, (host,), {"device": torch.device("meta")})
    assert not goes_to_device(INTO, (host, device), {})
    assert not goes_to_device(D2H, (host,), {"dtype": torch.float64})


def test_memory_that_is_gone_is_forgotten(simulated):
    auditor, _ = simulated
    for _ in range(3):
        copied(auditor)
    gc.collect()
    auditor.storages.sweep()
    assert not auditor.pending_copies
