"""Processes that save to one place while another one loads from it."""

import json
import os
import subprocess
import sys
import time

import torch

import torchcopy as tc


def _snapshot(value):
    values = {"t": torch.full((20_000,), float(value)), "n": value}
    return tc.History(v=values, rng=False).take()


def _main(path, count):
    """Two processes save as fast as they can; this one loads, and tells how many different snapshots it saw."""
    torch.set_num_threads(1)
    _snapshot(0).save(path)
    children = []
    for first in (1000, 2000):
        child = os.fork()
        if child == 0:
            for n in range(10**9):
                _snapshot(first + n).save(path)
        children.append(child)
    seen, deadline = set(), time.monotonic() + 60
    while len(seen) < count and time.monotonic() < deadline:
        state = tc.Snapshot.load(path).state("v")
        assert torch.equal(state["t"], torch.full((20_000,), float(state["n"])))
        seen.add(state["n"])
    alive = [os.waitpid(child, os.WNOHANG) == (0, 0) for child in children]
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)
    print(json.dumps({"seen": len(seen), "alive": alive}))


def test_who_loads_while_others_save_gets_a_whole_snapshot(tmp_path):
    command = [sys.executable, __file__, str(tmp_path / "s"), "100"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == {"seen": 100, "alive": [True, True]}


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
