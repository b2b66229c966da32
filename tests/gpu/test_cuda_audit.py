"""An audit on a GPU: copies to the host that are read before they have arrived."""

import pytest
import torch

import torchcopy as tc

pytestmark = pytest.mark.gpu


def codes(audit):
    return {f.code for f in audit.report.hazards}


@pytest.fixture
def busy():
    """A tensor that the device goes on computing for a while."""
    x = torch.eye(2048, device="cuda")
    torch.cuda.synchronize()
    for _ in range(50):
        x = x @ x
    yield x
    torch.cuda.synchronize()


READS = {
    "an operation": lambda host: host.sum(),
    "tolist": lambda host: host[0].tolist(),
    "item": lambda host: host[0, 0].item(),
    "an array that is let go of": lambda host: host.numpy().sum(),
    "print": repr,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_a_read_without_a_wait_is_found(busy, read):
    with tc.audit() as audit:
        host = busy.to("cpu", non_blocking=True)
        read(host)
    assert codes(audit) == {"TC104"}
    [finding] = audit.report.hazards
    assert len(finding.places) == 2
    torch.cuda.synchronize()
    assert torch.equal(host, torch.eye(2048))


WAITS = {
    "device": lambda event: torch.cuda.synchronize(),
    "accelerator": lambda event: torch.accelerator.synchronize(),
    "stream": lambda event: torch.cuda.current_stream().synchronize(),
    "event": lambda event: event.synchronize(),
    "any device's event": lambda event: (
        (generic := torch.Event(device="cuda")).record(),
        generic.synchronize(),
    ),
    "any device's stream": lambda event: torch.accelerator.current_stream().synchronize(),
    "item": lambda event: torch.ones((), device="cuda").item(),
    "blocking copy": lambda event: torch.ones(3, device="cuda").cpu(),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS.keys())
@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_a_read_after_a_wait_is_not(busy, read, wait):
    with tc.audit() as audit:
        host = busy.to("cpu", non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        wait(event)
        read(host)
    assert codes(audit) == set()
    assert torch.equal(host, torch.eye(2048))


def test_a_stream_that_waits_is_not_the_host(busy):
    side = torch.cuda.Stream()
    with tc.audit() as audit:
        host = busy.to("cpu", non_blocking=True)
        side.wait_stream(torch.cuda.current_stream())
        host.sum()
    assert codes(audit) == {"TC104"}
    with tc.audit() as audit:
        host = busy.to("cpu", non_blocking=True)
        side.wait_stream(torch.cuda.current_stream())
        side.synchronize()
        host.sum()
    assert codes(audit) == set()


def test_pageable_memory_is_there_when_the_call_returns(busy):
    host = torch.zeros(2048, 2048)
    with tc.audit() as audit:
        host.copy_(busy, non_blocking=True)
        seen = host.clone()
    assert codes(audit) == set()
    assert torch.equal(seen, torch.eye(2048))


def test_nothing_of_the_audit_stays_on_streams_and_events():
    def methods():
        cuda = torch.cuda.synchronize, torch.cuda.Stream.synchronize, torch.cuda.Event.record
        return *cuda, torch.Stream.synchronize, torch.Event.record, torch.Tensor.tolist

    before = methods()
    with tc.audit():
        torch.cuda.synchronize()
        assert not set(before) & set(methods())
    assert methods() == before
