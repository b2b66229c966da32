"""Reads of a copy that the host has not waited for, with streams and events that are simulated."""

import gc
import types

import numpy as np
import pytest
import torch

from torchcopy.auditing.auditor import Auditor
from torchcopy.auditing.device_streams import DeviceStreams, goes_to_device
from torchcopy.auditing.op_plans import plan_for

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


@pytest.fixture
def simulated():
    """The streams, and a module that stands for `torch.cuda`, wrapped as that is."""
    auditor = Auditor()
    streams = auditor.streams = DeviceStreams(auditor, Streams())
    auditor.pending_copies = streams.reads.pending
    cuda = types.SimpleNamespace(
        Stream=type("Stream", (Stream,), {}),
        Event=type("Event", (Event,), {}),
        synchronize=lambda device=None: None,
    )
    cuda.current_stream = lambda: cuda.Stream("default")
    streams.install(lambda owner, name, make: setattr(owner, name, make(getattr(owner, name))), cuda)
    yield auditor, cuda
    auditor.stop()
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
