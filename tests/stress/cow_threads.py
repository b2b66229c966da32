"""Gives up lazy clones on several threads at the same moment, over and over, and checks every value.

    python cow_threads.py --rounds 20000 --threads 2
    python cow_threads.py --rounds 20000 --threads 2 --without-anchors

With `--without-anchors` the clones are PyTorch's own, and the program hangs or dies: what happens to the process
is the result, so it is run in one of its own. It prints `clean` and exits with 0, or it does not.

A round gives up a batch of tensors a thread, in one call that lets go of the interpreter's lock: so the threads
go through the same buffers in the same order, side by side.
"""

import argparse
import faulthandler
import gc
import os
import sys
import threading
import time

import torch

from torchcopy.copying.copy_on_write import anchors
from torchcopy.copying.copy_on_write.lazy import lazy_clones


def anchored(sources, count):
    return lazy_clones(sources, count)


def bare(sources, count):
    with torch.no_grad():
        return [[torch._lazy_clone(t) for t in sources] for _ in range(count)]


class Cycle:
    """Holds tensors and itself: only the garbage collector frees it."""

    def __init__(self, tensors):
        self.tensors, self.me = tensors, self


class Case:
    """One round: `job` runs on all threads at the same moment; `check` looks at what they left.

    `batches` are the sources and `threads - 1` lazy clones of them: one batch of tensors for each thread.
    """

    batch, size = 64, 1024

    def __init__(self, fork, threads):
        self.fork, self.threads = fork, threads
        self.setup()

    def setup(self):
        sources = self.make_sources()
        self.batches = [sources, *self.fork(sources, self.threads - 1)]

    def make_sources(self):
        return [torch.zeros(self.size) for _ in range(self.batch)]

    def write(self, index):
        torch._foreach_add_(self.batches[index], index + 1)

    def expect(self, tensors, value):
        seen = torch.stack(tensors)
        if not (seen == value).all():
            raise AssertionError(f"{type(self).__name__}: {seen.unique().tolist()} instead of {value}")

    def check(self):
        for index, tensors in enumerate(self.batches):
            if tensors:
                self.expect(tensors, index + 1)


class WriteWrite(Case):
    """The sources and each clone are written."""

    def job(self, index):
        self.write(index)


class WriteDrop(Case):
    """The sources are written while their clones are dropped."""

    def job(self, index):
        if index:
            self.batches[index] = None
        else:
            self.write(index)


class DropWrite(Case):
    """The clones are written while the sources are dropped."""

    def job(self, index):
        if index:
            self.write(index)
        else:
            self.batches[index] = None


class DropDrop(Case):
    """All are dropped."""

    def job(self, index):
        self.batches[index] = None

    def check(self):
        if any(self.batches):
            raise AssertionError("something was not dropped")


class Collected(Case):
    """The garbage collector drops clones on one thread while the others write."""

    def setup(self):
        super().setup()
        Cycle(self.batches.pop())

    def job(self, index):
        if index == self.threads - 1:
            gc.collect()
        else:
            self.write(index)


class FreedByBackward(Case):
    """Autograd frees clones that it saved, without the interpreter's lock, while the others are written."""

    def setup(self):
        super().setup()
        self.weight = torch.ones(self.size, requires_grad=True)
        self.loss = torch.stack([self.weight * t for t in self.batches.pop()]).sum()

    def job(self, index):
        if index == self.threads - 1:
            self.loss.backward()
        else:
            self.write(index)

    def check(self):
        self.expect([self.weight.grad], 0)
        super().check()


class ForkOfFork(Case):
    """Each thread forks its own tensors, which share their bytes with all others, and writes both."""

    def job(self, index):
        (again,) = self.fork(self.batches[index], 1)
        self.write(index)
        torch._foreach_add_(again, 10)
        self.expect(again, 10)


class ForksAtOnce(Case):
    """All threads fork the same sources, which are not lazy yet; each writes its forks."""

    def setup(self):
        self.sources = self.make_sources()
        self.batches = [None] * self.threads

    def job(self, index):
        (self.batches[index],) = self.fork(self.sources, 1)
        self.write(index)

    def check(self):
        self.expect(self.sources, 0)
        torch._foreach_add_(self.sources, 50)
        super().check()


class ForkBesideWrite(Case):
    """The sources are written while the other threads fork clones of them."""

    def job(self, index):
        if index:
            (again,) = self.fork(self.batches[index], 1)
            self.expect(again, 0)
            torch._foreach_add_(again, 1)
            self.expect(again, 1)
        else:
            self.write(index)

    def check(self):
        self.expect(self.batches[0], 1)
        for tensors in self.batches[1:]:
            self.expect(tensors, 0)


CASES = (
    WriteWrite,
    WriteDrop,
    DropWrite,
    DropDrop,
    Collected,
    FreedByBackward,
    ForkOfFork,
    ForksAtOnce,
    ForkBesideWrite,
)


def run(rounds, threads, fork, cases, patience):
    current, errors = [None], []
    start, end = threading.Barrier(threads), threading.Barrier(threads)

    def work(index):
        try:
            current[0].job(index)
        except BaseException as error:  # noqa: BLE001  # told by the main thread
            errors.append(error)

    def follow(index):
        while True:
            start.wait()
            if current[0] is None:
                return
            work(index)
            end.wait()

    followers = [threading.Thread(target=follow, args=(index,)) for index in range(1, threads)]
    for follower in followers:
        follower.start()
    for number in range(rounds):
        if number % 100 == 0:
            faulthandler.dump_traceback_later(patience, exit=True)  # a hang ends here
        current[0] = cases[number % len(cases)](fork, threads)
        start.wait()
        work(0)
        end.wait()
        if errors:
            raise errors[0]
        current[0].check()
        current[0] = None
    start.wait()
    for follower in followers:
        follower.join()
    faulthandler.cancel_dump_traceback_later()


def sweep_always():
    while True:
        anchors.settle()
        time.sleep(0.0001)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--case", choices=[case.__name__ for case in CASES])
    parser.add_argument("--batch", type=int, default=Case.batch, help="tensors a thread")
    parser.add_argument("--size", type=int, default=Case.size, help="elements a tensor")
    parser.add_argument("--without-anchors", action="store_true")
    parser.add_argument("--sweep", action="store_true", help="one more thread lets anchors go all the time")
    parser.add_argument("--patience", type=float, default=60, help="seconds for 100 rounds; more is a hang")
    options = parser.parse_args()
    Case.batch, Case.size = options.batch, options.size
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # so that a collection in a round looks at little
    cases = [case for case in CASES if options.case in (None, case.__name__)]
    if options.sweep:
        threading.Thread(target=sweep_always, daemon=True).start()
    fork = bare if options.without_anchors else anchored
    try:
        run(options.rounds, options.threads, fork, cases, options.patience)
    except BaseException as error:  # noqa: BLE001  # whatever it was, the process has to end
        print(f"failed: {error!r}", flush=True)
        os._exit(1)  # other threads may hang
    gc.collect()
    deadline = time.monotonic() + 20
    while len(anchors.pool) and time.monotonic() < deadline:
        time.sleep(0.01)
    if len(anchors.pool):
        sys.exit(f"failed: {len(anchors.pool)} anchors are left")
    print(f"clean: {options.rounds} rounds, {options.threads} threads", flush=True)


if __name__ == "__main__":
    main()
