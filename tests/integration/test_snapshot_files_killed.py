"""A save that is killed at any moment leaves what was there before, or what it saved."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import torchcopy as tc

_SIZES = [(300, 300)] * 8


def _history(value):
    tensors = {f"t{k}": torch.full(size, float(value)) for k, size in enumerate(_SIZES)}
    history = tc.History(
        values=tensors, more={"value": value, "t": torch.full((100_000,), float(value))}, rng=False
    )
    history.take(value=value)
    return history


def _check(loaded):
    """The snapshot is one that was saved, whole: all of its values are the same number."""
    value = loaded.labels["value"]
    state, more = loaded.state("values"), loaded.state("more")
    assert more["value"] == value
    assert len(state) == len(_SIZES)
    for t in (*state.values(), more["t"]):
        assert torch.equal(t, torch.full_like(t, float(value)))
    return value


def _save(kind, path, value):
    history = _history(value)
    if kind == "snapshot":
        history[-1].save(path)
        return
    for more in range(2):
        history.take(value=value, more=more)
    history.save(path)


def _load(kind, path):
    """The number that all values of what is there have."""
    if kind == "snapshot":
        return _check(tc.Snapshot.load(path))
    (value,) = {_check(each) for each in tc.History.load(path)}  # never snapshots of two saves
    return value


def _killed(kind, path, value, after):
    """Saves `value`, `value + 1`, … in a process that is killed after a time; the last one that was saved."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        while True:
            _save(kind, path, value)
            os.write(writing, f"{value} ".encode())
            value += 1
    os.close(writing)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    with os.fdopen(reading) as done:
        return int((done.read() or str(value - 1)).split()[-1])


def _main(kind, path, times):
    """In a process of its own, which starts others as quickly as the system can: by `fork`."""
    torch.set_num_threads(1)
    rng = random.Random(1)
    begin = time.perf_counter()
    _save(kind, path, 1)
    longest = 2.5 * (time.perf_counter() - begin)
    value, old, new, left = 1, 0, 0, 0
    for _ in range(times):
        done = _killed(kind, path, value + 1, rng.uniform(0, longest))
        value = _load(kind, path)
        assert value in (done, done + 1), (value, done)
        old, new = old + (value == done), new + (value == done + 1)
        left += len(list(path.parent.iterdir())) > 1 or (kind == "history" and len(list(path.iterdir())) > 4)
    _save(kind, path, value + 1)
    assert _load(kind, path) == value + 1
    assert [each.name for each in path.parent.iterdir()] == [path.name]  # nothing is left of those that were killed
    assert kind == "snapshot" or len(list(path.iterdir())) == 4  # three snapshots, and the list of them
    print(json.dumps({"old": old, "new": new, "left": left}))


def _kill_many_times(kind, path, times):
    command = [sys.executable, __file__, kind, str(path), str(times)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["snapshot", "history"])
def test_a_killed_save_leaves_the_old_one_or_the_new_one(tmp_path, kind):
    outcomes = _kill_many_times(kind, tmp_path / "saved", 20)
    assert outcomes["old"] + outcomes["new"] == 20
    assert outcomes["left"] > 0  # some were killed while they wrote


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["snapshot", "history"])
def test_two_hundred_killed_saves(tmp_path, kind):
    outcomes = _kill_many_times(kind, tmp_path / "saved", 200)
    assert outcomes["old"] + outcomes["new"] == 200
    assert outcomes["left"] > 20


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
