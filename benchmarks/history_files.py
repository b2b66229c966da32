"""What saving and loading a snapshot costs beside `torch.save` and `torch.load`: ratios of one run.

Both sides write and read the states of the same snapshot, in turns. Reading is from the page cache, as it is for a
file that was just written; `Snapshot.load` verifies every byte, `torch.load` none.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from copying_workloads import WORKLOADS, Subject

import torchcopy as tc


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("tiny", "W1", "W2", "W3", "W4"), default=["W1", "W3", "W4"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", type=Path, nargs="+", help="where the files go; default: temporary and /dev/shm")
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, torchcopy {tc.__version__}, {os.cpu_count()} processors")
    print(f"load average at the start {os.getloadavg()[0]:.1f}, medians of {arguments.rounds} turns, in ms")
    for place in arguments.dir or [Path(tempfile.gettempdir()), *(p for p in [Path("/dev/shm")] if p.is_dir())]:
        for name in arguments.only:
            directory = Path(tempfile.mkdtemp(dir=place))
            try:
                compare(name, WORKLOADS[name].build(torch.device("cpu")), directory, arguments.rounds)
            finally:
                shutil.rmtree(directory)


def compare(name: str, subject: Subject, directory: Path, rounds: int) -> None:
    """Prints the ratios of one workload in one place."""
    model, optimizer = subject.whole if isinstance(subject.whole, tuple) else (subject.whole, None)
    objects: dict[str, Any] = {"model": model} if optimizer is None else {"model": model, "optimizer": optimizer}
    snapshot = tc.History(**objects, rng=False).take(step=1)
    states = {part: target.state_dict() for part, target in objects.items()}
    ours, theirs = directory / "snapshot", directory / "states.pt"
    saves = {
        "save": lambda: snapshot.save(ours),
        "torch.save": lambda: torch.save(states, theirs),
        "torch.save, fsync": lambda: save_and_sync(states, theirs),
    }
    loads = {
        "load": lambda: tc.Snapshot.load(ours),
        "load, restore": lambda: tc.Snapshot.load(ours).restore(**objects),
        "torch.load": lambda: torch.load(theirs),
        "torch.load, into": lambda: into(objects, torch.load(theirs)),
        "torch.load, mmap": lambda: torch.load(theirs, mmap=True),
    }

    def remove() -> None:
        shutil.rmtree(ours, ignore_errors=True)
        theirs.unlink(missing_ok=True)

    times = in_turns(saves, rounds, remove)
    snapshot.save(ours)
    torch.save(states, theirs)
    times |= in_turns(loads, rounds, lambda: None)
    where = f"{directory.parent} ({file_system(directory)})"
    size = sum(t.nbytes for t in subject.tensors)
    print(f"\n{name}, {len(subject.tensors)} tensors, {size / 1e6:.0f} MB, in {where}")
    for what, listed in times.items():
        print(f"  {what:20}{statistics.median(listed) * 1e3:9.1f}")
    for a, b in (
        ("save", "torch.save, fsync"),
        ("save", "torch.save"),
        ("load", "torch.load"),
        ("load, restore", "torch.load, into"),
    ):
        ratios = [y / x for x, y in zip(times[a], times[b], strict=True)]
        print(f"  {a} against {b}: {statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})")


def save_and_sync(states: Any, path: Path) -> None:
    """What `torch.save` would have to do to survive a power cut: our side does it always."""
    torch.save(states, path)
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def into(objects: dict[str, Any], states: dict[str, Any]) -> None:
    """What a program does with what it has loaded."""
    for part, target in objects.items():
        target.load_state_dict(states[part])


def in_turns(
    calls: dict[str, Callable[[], object]], rounds: int, before: Callable[[], None]
) -> dict[str, list[float]]:
    """Seconds of each call, one turn after the other; the first turn does not count."""
    times: dict[str, list[float]] = {what: [] for what in calls}
    for turn in range(rounds + 1):
        for what, call in calls.items():
            before()
            os.sync()  # nobody waits for what the one before has left to be written
            begin = time.perf_counter()
            result = call()
            seconds = time.perf_counter() - begin
            del result
            if turn:
                times[what].append(seconds)
    return times


def file_system(path: Path) -> str:
    """The kind of the file system that `path` is on."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    inside = [(len(mount), kind) for mount, kind in mounts if path.is_relative_to(mount)]
    return max(inside)[1]


if __name__ == "__main__":
    main()
