"""Where lazy snapshots let go of their bytes: on the thread that trains, and not later than it needs the memory."""

import gc
import subprocess
import sys
import threading
import time

import pytest
import torch
from torch import nn, optim

import torchcopy as tc
from bitwise import bits, differences
from torchcopy.copying.copy_on_write import anchors
from torchcopy.history.taking.before_step import before_step


@pytest.fixture
def run():
    gc.collect()
    until = time.monotonic() + 2
    while anchors.settle() and time.monotonic() < until:  # what earlier tests have dropped has its moment of grace
        time.sleep(0.02)
    assert anchors.held_bytes() == 0
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4))
    optimizer = optim.AdamW(model.parameters(), lr=0.1, fused=True)
    step(model, optimizer)
    return model, optimizer


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(2, 8)).square().sum().backward()
    optimizer.step()


def old_bytes_when_the_optimizer_writes(model, optimizer):
    """What nothing but anchors keeps, seen by a hook that runs after that of the history."""
    seen = []
    handle = optimizer.register_step_post_hook(lambda *_: seen.append(anchors.held_bytes()))
    step(model, optimizer)
    handle.remove()
    return seen[0]


def test_what_an_evicted_snapshot_held_is_free_before_the_next_step_writes(run):
    model, optimizer = run
    history = tc.History(model=model, optimizer=optimizer, mode="lazy", keep=2, rng=False)
    for _ in range(6):
        snapshot = history.take()
        wanted = bits(snapshot.state_dict("model"))
        assert old_bytes_when_the_optimizer_writes(model, optimizer) == 0
        assert differences(bits(snapshot.state_dict("model")), wanted) == []
        assert differences(bits(model.state_dict()), wanted) != []


def test_the_hook_goes_when_there_is_nothing_to_let_go(run):
    model, optimizer = run
    history = tc.History(model=model, optimizer=optimizer, mode="lazy", keep=1, rng=False)
    for _ in range(2):
        history.take()
        step(model, optimizer)
    history.take()
    assert before_step._hook is not None
    step(model, optimizer)
    assert before_step._hook is None
    assert not before_step._work


def test_a_history_that_is_gone_leaves_no_hook_behind(run):
    model, optimizer = run
    history = tc.History(model=model, optimizer=optimizer, mode="lazy", keep=1, rng=False)
    for _ in range(2):
        history.take()
        with torch.no_grad():
            model[0].weight.add_(1)
    del history
    step(model, optimizer)
    assert before_step._hook is None


def test_another_threads_step_lets_nothing_go(run):
    model, optimizer = run
    history = tc.History(model=model, mode="lazy", keep=1, rng=False)
    for _ in range(2):
        history.take()
        step(model, optimizer)
    history.take()
    waiting = len(history._returned._lazy)
    assert waiting == 1
    other = nn.Linear(2, 2)
    thread = threading.Thread(target=step_of, args=(other,))
    thread.start()
    thread.join()
    assert len(history._returned._lazy) == waiting
    step(model, optimizer)
    assert not history._returned._lazy


def step_of(model):
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()


def test_what_the_program_drops_itself_is_free_at_once(run):
    model, optimizer = run
    history = tc.History(model=model, optimizer=optimizer, mode="lazy", keep=1, rng=False)
    snapshot = history.take()
    step(model, optimizer)
    history.take()
    assert anchors.held_bytes() == 0, "the program still has the first one"
    before = len(anchors.pool)
    del snapshot
    assert anchors.held_bytes() == 0
    assert len(anchors.pool) < before


def test_bytes_that_other_snapshots_share_stay(run):
    model, optimizer = run
    history = tc.History(model=model, optimizer=optimizer, mode="lazy", keep=2, rng=False)
    model[1].requires_grad_(False)
    optimizer.zero_grad(set_to_none=True)
    for _ in range(4):
        wanted = bits(model.state_dict())
        snapshot = history.take()
        step(model, optimizer)
        assert differences(bits(snapshot.state_dict("model")), wanted) == []
    frozen = model[1].weight
    kept = [each.state_dict("model")["1.weight"] for each in history]
    assert all(torch.equal(t, frozen) for t in kept)
    with torch.no_grad():
        frozen.add_(1)
    assert all(not torch.equal(each.state_dict("model")["1.weight"], frozen) for each in history)


def test_a_snapshot_that_the_program_keeps_is_whole_after_its_eviction(run):
    model, optimizer = run
    history = tc.History(model=model, optimizer=optimizer, mode="lazy", keep=1, rng=False)
    first = history.take()
    wanted = bits(first.state_dict("model"))
    for _ in range(3):
        step(model, optimizer)
        history.take()
    assert differences(bits(first.state_dict("model")), wanted) == []
    first.restore()
    assert differences(bits(model.state_dict()), wanted) == []
    step(model, optimizer)
    assert differences(bits(first.state_dict("model")), wanted) == []


@pytest.mark.parametrize("mode", ["eager", "lazy", "background"])
def test_a_history_that_lives_until_the_interpreter_ends_ends_in_silence(mode):
    program = f"""
import torch, torchcopy as tc
model = torch.nn.Linear(4, 4)
history = tc.History(model=model, mode={mode!r}, keep=2, rng=False)
for _ in range(4):
    snapshot = history.take()
    with torch.no_grad():
        model.weight.add_(1)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
