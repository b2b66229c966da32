"""Each device is waited for in the way that its backend offers, and those with nothing under way are not."""

import types

import pytest
import torch

from torchcopy.copying.tensors.device_waits import wait_for


@pytest.fixture
def waited(monkeypatch):
    """What was waited for, in order: CUDA has streams here, MPS has none."""
    log = []
    stream = lambda device: types.SimpleNamespace(synchronize=lambda: log.append(f"stream of {device}"))  # noqa: E731
    backends = {
        "cuda": types.SimpleNamespace(current_stream=stream, synchronize=lambda: log.append("all of cuda")),
        "mps": types.SimpleNamespace(synchronize=lambda: log.append("all of mps")),
    }
    monkeypatch.setattr(torch, "get_device_module", lambda device: backends[device.type])
    return log


def test_the_current_stream_of_each_device_is_waited_for(waited):
    wait_for([torch.device("cuda", 1), torch.device("cuda", 0)])
    assert waited == ["stream of cuda:1", "stream of cuda:0"]


def test_without_streams_the_whole_device_is_waited_for(waited):
    wait_for([torch.device("mps")])
    assert waited == ["all of mps"]


def test_nothing_is_under_way_on_the_host(waited):
    wait_for([torch.device("cpu"), torch.device("meta")])
    assert waited == []
