"""Snapshots of a run on a GPU: the same assertions as on the CPU, with the allocator and streams of CUDA."""

import pytest
import torch
from torch import nn

import torchcopy as tc

pytestmark = pytest.mark.gpu


@pytest.fixture
def training():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.1), nn.BatchNorm1d(64), nn.Linear(64, 8)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)

    def step():
        loss = model(torch.randn(32, 64, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    step()
    return model, optimizer, step


@pytest.mark.parametrize("mode", ["eager", "lazy", "background"])
def test_a_restored_run_goes_on_to_the_bit(training, mode):
    model, optimizer, step = training
    history = tc.History(model=model, optimizer=optimizer, mode=mode)
    history.take(step=0)
    first = [step() for _ in range(10)]
    weights = {name: t.clone() for name, t in model.state_dict().items()}
    history[-1].restore()
    assert [step() for _ in range(10)] == first
    assert all(torch.equal(t, weights[name]) for name, t in model.state_dict().items())


@pytest.mark.parametrize("mode", ["eager", "background"])
def test_bytes_are_staged_in_main_memory(training, mode):
    model, optimizer, step = training
    history = tc.History(model=model, optimizer=optimizer, mode=mode, device="cpu")
    expected = {name: t.cpu() for name, t in model.state_dict().items()}
    snapshot = history.take()
    step()
    state = snapshot.wait().state_dict("model")
    assert {t.device.type for t in state.values()} == {"cpu"}
    assert all(torch.equal(t, expected[name]) for name, t in state.items())
    snapshot.restore()
    assert all(torch.equal(t.cpu(), expected[name]) for name, t in model.state_dict().items())


@pytest.mark.parametrize("mode", ["lazy", "background"])
def test_no_snapshot_is_torn_by_steps_on_another_stream(training, mode):
    model, optimizer, step = training
    history = tc.History(model=model, optimizer=optimizer, mode=mode, keep=4)
    side = torch.cuda.Stream()
    expected = []
    for turn in range(50):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side if turn % 2 else torch.cuda.current_stream()):
            copies = {name: t.clone() for name, t in model.state_dict().items()}
            history.take(step=turn)
            step()
        torch.cuda.current_stream().wait_stream(side)
        expected = [*expected[-3:], copies]
    history.wait()
    torch.cuda.synchronize()
    for snapshot, copies in zip(history, expected, strict=True):
        assert all(torch.equal(t, copies[name]) for name, t in snapshot.state_dict("model").items())


def test_lazy_snapshots_take_no_memory_until_a_write(training):
    model, optimizer, step = training
    history = tc.History(model=model, optimizer=optimizer, mode="lazy", rng=False)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(5):
        history.take()
    assert torch.cuda.memory_allocated() == before
    assert history.nbytes == 0
    step()
    assert history.nbytes > 0
