"""Takes snapshots of a run that never stops stepping, and compares each with a copy made at the same moment.

    python history_soak.py --mode background --takes 10000

Snapshots go in every way there is: evicted by newer ones, dropped on another thread, left to the garbage collector,
taken out of the history. It prints `clean` and exits with 0, or says what was torn; a hang ends in a traceback.
"""

import argparse
import faulthandler
import gc
import os
import queue
import random
import sys
import threading
from collections import deque
from pathlib import Path

import torch
from torch import nn

import torchcopy as tc
from torchcopy.history.taking import background

SIZES = (1, 7, 64, 1000, 4096, 20_000, 65_536)
FROZEN = 20_000
MIB = 1 << 20
MODES = ("eager", "lazy", "background")


class Weights(nn.Module):
    """Tensors of all sizes, one of them never trained, and a buffer that changes by itself."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ParameterList([torch.randn(size) for size in SIZES])
        self.frozen = nn.Parameter(torch.randn(FROZEN), requires_grad=False)
        self.register_buffer("steps", torch.zeros(16))


class Dropper(threading.Thread):
    """Another thread, which lets go of what it is given."""

    def __init__(self):
        super().__init__(daemon=True)
        self.given = queue.Queue()
        self.start()

    def run(self):
        while self.given.get() is not None:
            pass


class Soak:
    """One run with its history. `expected` are snapshots with copies of what they have to be."""

    def __init__(self, mode, seed):
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.model = Weights()
        self.optimizer = torch.optim.AdamW([p for p in self.model.parameters() if p.requires_grad], fused=True)
        self.gradients = [[torch.randn_like(p) for p in self.model.parts] for _ in range(3)]
        self.history = tc.History(model=self.model, optimizer=self.optimizer, mode=mode, keep=4)
        self.expected = deque()
        self.dropper = Dropper()
        self.compared = 0
        self.step()

    def step(self):
        for p, gradient in zip(self.model.parts, self.random.choice(self.gradients), strict=True):
            p.grad = gradient
        self.optimizer.step()
        self.model.steps.data.add_(1)

    def live(self):
        state = self.optimizer.state
        moments = [t for p in self.model.parts for t in state[p].values()]
        return [*self.model.parameters(), *self.model.buffers(), *moments]

    def take(self, number):
        copies = [t.detach().clone() for t in self.live()]
        self.expected.append((self.history.take(step=number, loss=self.random.random()), copies))

    def compare(self, snapshot, copies):
        state, moments = snapshot.state_dict("model"), snapshot.state_dict("optimizer")["state"]
        weights = [state[f"parts.{k}"] for k in range(len(SIZES))]
        found = [
            state["frozen"],
            *weights,
            state["steps"],
            *(t for each in moments.values() for t in each.values()),
        ]
        if len(found) != len(copies) or not all(map(torch.equal, found, copies)):
            torn = [k for k, (a, b) in enumerate(zip(found, copies, strict=False)) if not torch.equal(a, b)]
            raise AssertionError(f"{snapshot!r} is torn: {len(found)} tensors, {torn} of them are wrong")
        self.compared += 1

    def drop(self, snapshot):
        """One of the ways in which a snapshot goes."""
        way = self.random.randrange(4)
        if way == 0 and snapshot in list(self.history):
            self.history.remove(snapshot)
        if way == 1:
            self.dropper.given.put([snapshot])
        elif way == 2:
            cycle = [snapshot]
            cycle.append(cycle)

    def round(self, number):
        self.take(number)
        if self.random.random() < 0.1:
            self.compare(*self.expected[-1])
        for _ in range(self.random.randrange(1, 3)):
            self.step()
        if self.random.random() < 0.02:
            snapshot, copies = self.random.choice(self.expected)
            snapshot.restore()
            if not all(map(torch.equal, self.live(), copies)):
                raise AssertionError(f"{snapshot!r} was restored wrongly")
        while len(self.expected) > 3:
            snapshot, copies = self.expected.popleft()
            self.compare(snapshot, copies)
            self.drop(snapshot)


def resident():
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(mode, options):
    """What is wrong after so many rounds, or None."""
    soak = Soak(mode, options.seed)
    before = 0
    for number in range(options.takes):
        if number % 100 == 0:
            faulthandler.dump_traceback_later(options.patience, exit=True)
        if number == min(options.takes // 2, 2000):
            gc.collect()
            before = resident()
        soak.round(number)
    gc.collect()
    grown = (resident() - before) / MIB
    print(f"{mode}: {grown:.1f} MiB more are held than after the warm-up", file=sys.stderr)
    if grown > options.growth:
        return f"{mode}: {grown:.1f} MiB more are held than after the warm-up"
    if soak.compared < options.takes - 3:
        return f"{mode}: only {soak.compared} snapshots were compared"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=MODES, nargs="+", default=MODES)
    parser.add_argument("--takes", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--growth", type=float, default=40, help="MiB that may be held more after the warm-up")
    parser.add_argument("--patience", type=float, default=60, help="seconds for 100 takes; more is a hang")
    parser.add_argument("--chunk", type=int, default=100_000, help="bytes that the staging thread moves at a time")
    options = parser.parse_args()
    torch.set_num_threads(1)
    background._CHUNK_BYTES = options.chunk
    for mode in options.mode:
        try:
            fault = run(mode, options)
        except BaseException as error:  # noqa: BLE001  # whatever it was, the process has to end
            fault = repr(error)
        if fault is not None:
            print(f"failed: {fault}", flush=True)
            os._exit(1)
        print(f"clean: {options.takes} takes, {mode}", flush=True)
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
