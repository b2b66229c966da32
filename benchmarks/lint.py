"""Measures lines a second of `torchcopy lint` on the installed `transformers`, beside TorchFix and flake8 with it.

Run it with: `python benchmarks/lint.py [--sample 60000] [--rounds 3] [--other PYTHON] [--out FILE]`

TorchFix takes a quarter of an hour for the whole package: it and flake8 check every n-th file of it, about as many
lines as `--sample` says. torchcopy checks these too, and the whole package. Each is a process of its own, started
anew for each round; one process means one processor. TorchFix is installed into an environment of its own, or
`--other` names a Python that has it.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from exit_status import errors_end
from rich import box
from rich.console import Console
from rich.table import Table

from torchcopy._errors import MeasurementError
from torchcopy.reporters.as_json import to_json
from torchcopy.reporters.files import write_text
from torchcopy.semantics.machine import describe_machine

REQUIREMENTS = ("torchfix==0.7.0", "flake8")
# With so many processes, how many times as many lines a second as TorchFix with one.
FLOORS = {1: 20.0, 2: 40.0}
CACHED_FLOOR = 10.0
MOST_BYTES = 500e6


@dataclasses.dataclass(frozen=True)
class Timing:
    """How long a tool took.

    Attributes:
        tool: and how it was run.
        processes: at most as many.
        files: that it was given.
        lines: in them.
        seconds: the median of the rounds.
        peak_bytes: of memory, all its processes together; pages that they share counted once.
    """

    tool: str
    processes: int
    files: int
    lines: int
    seconds: float
    peak_bytes: int

    @property
    def lines_per_second(self) -> float:
        """What is compared."""
        return self.lines / self.seconds


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How many times as fast torchcopy is.

    Attributes:
        name: with how many processes, and against what.
        value: lines a second over lines a second.
        floor: what it has to be at least.
    """

    name: str
    value: float
    floor: float | None

    @property
    def is_reached(self) -> bool:
        """Whether it is not below its floor."""
        return self.floor is None or self.value >= self.floor


@dataclasses.dataclass(frozen=True)
class Sources:
    """Files to check."""

    paths: tuple[str, ...]
    files: int
    lines: int


def whole_package() -> Sources:
    found = importlib.util.find_spec("transformers")
    if found is None or found.origin is None:
        raise MeasurementError("transformers is not installed: `pip install transformers`")
    folder = Path(found.origin).parent
    files = sorted(folder.rglob("*.py"))
    return Sources((str(folder),), len(files), sum(map(count_lines, files)))


def sample_of(package: Sources, lines: int) -> Sources:
    files = sorted(Path(package.paths[0]).rglob("*.py"))
    some = files[:: max(1, package.lines // lines)]
    return Sources(tuple(map(str, some)), len(some), sum(map(count_lines, some)))


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


@contextlib.contextmanager
def environment(given: str | None) -> Iterator[str]:
    """A Python that has TorchFix and flake8."""
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = str(Path(folder) / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
        yield python


# --- one run ----------------------------------------------------------------------------------------------------


def time_once(command: Sequence[str], processes: int, variables: dict[str, str]) -> tuple[float, int]:
    """Seconds and the peak of memory of a command that may use `processes` processors."""
    processors = sorted(os.sched_getaffinity(0))[:processes]
    began = time.perf_counter()
    child = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | variables,
        preexec_fn=lambda: os.sched_setaffinity(0, processors),  # no other thread runs
    )
    peak = [0]
    watching = threading.Thread(target=watch, args=(child, peak))
    watching.start()
    _, errors = child.communicate()
    seconds = time.perf_counter() - began
    watching.join()
    if child.returncode not in (0, 1):
        raise MeasurementError(f"{command[0]} ended with {child.returncode}: {errors.decode()[-300:]}")
    return seconds, peak[0]


def watch(child: subprocess.Popen[bytes], peak: list[int]) -> None:
    while child.poll() is None:
        peak[0] = max(peak[0], sum(map(memory_of, family_of(child.pid))))
        time.sleep(0.1)


def family_of(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *(each for child in children for each in family_of(int(child)))]
    return []


def memory_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def timing(tool: str, command: Sequence[str], sources: Sources, processes: int, rounds: int, cache: str) -> Timing:
    runs = [time_once([*command, *sources.paths], processes, {"TORCHCOPY_CACHE_DIR": cache}) for _ in range(rounds)]
    seconds = statistics.median(seconds for seconds, _ in runs)
    return Timing(tool, processes, sources.files, sources.lines, seconds, max(peak for _, peak in runs))


def measure(python: str, package: Sources, sample: Sources, processes: Sequence[int], rounds: int) -> list[Timing]:
    ours = [sys.executable, "-m", "torchcopy", "lint", "--statistics"]
    torchfix = [str(Path(python).parent / "torchfix"), "-j"]
    flake8 = [python, "-m", "flake8", "--select", "TOR", "-j"]
    found = []
    with tempfile.TemporaryDirectory() as cache:
        for count in processes:
            fresh = [*ours, "--no-cache"]
            found += [
                timing("torchcopy lint", fresh, package, count, rounds, cache),
                timing("torchcopy lint, the sample", fresh, sample, count, rounds, cache),
                timing("TorchFix, the sample", [*torchfix, str(count)], sample, count, 1, cache),
                timing("flake8 with TorchFix, the sample", [*flake8, str(count)], sample, count, 1, cache),
            ]
        count = max(processes)
        timing("torchcopy lint, filling the cache", ours, package, count, 1, cache)
        found.append(timing("torchcopy lint, cached", ours, package, count, rounds, cache))
    return found


def ratios(timings: Sequence[Timing]) -> list[Ratio]:
    """How many times as many lines a second torchcopy reads, on the package and on the files of the others.

    On these it is slower: its start is a larger part. What has to be reached is measured on the package.
    """
    by = {(each.tool, each.processes): each.lines_per_second for each in timings}
    counts = sorted({processes for _, processes in by})
    found = []
    for own in counts:
        for tool, processes in by:
            if "torchcopy" not in tool and processes in (1, own):
                floor = FLOORS[own] if processes == 1 else None
                for what, ours in (("the package", "torchcopy lint"), ("the sample", "torchcopy lint, the sample")):
                    ratio = by[ours, own] / by[tool, processes]
                    name = f"{own} on {what} against {tool} with {processes}"
                    found.append(Ratio(name, ratio, floor if ours == "torchcopy lint" else None))
    most = counts[-1]
    cached = by["torchcopy lint, cached", most] / by["torchcopy lint", most]
    found.append(Ratio(f"{most}, cached, against uncached", cached, CACHED_FLOOR))
    return found


def show(timings: Sequence[Timing]) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("tool", "processes", "files", "lines", "seconds", "lines a second", "memory"):
        table.add_column(name, justify="left" if name == "tool" else "right")
    for each in timings:
        table.add_row(
            each.tool,
            str(each.processes),
            f"{each.files:,}",
            f"{each.lines:,}",
            f"{each.seconds:.2f}",
            f"{each.lines_per_second:,.0f}",
            f"{each.peak_bytes / 1e6:,.0f} MB",
        )
    console = Console(width=110)
    console.print(table)
    for each in ratios(timings):
        floor = "" if each.floor is None else f" (floor {each.floor:g} {_mark(each.is_reached)})"
        console.print(f"{each.value:8.1f} × torchcopy lint with {each.name}{floor}")
    most = max(each.peak_bytes for each in timings if "torchcopy" in each.tool)
    console.print(f"{most / 1e6:8.0f} MB at most (limit {MOST_BYTES / 1e6:.0f} {_mark(most <= MOST_BYTES)})")


def _mark(reached: bool) -> str:
    return "✓" if reached else "✗"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sample", type=int, default=60_000, help="lines that the slow tools check")
    parser.add_argument("--rounds", type=int, default=3, help="of torchcopy; the slow tools run once")
    parser.add_argument("--other", help="a Python that has TorchFix and flake8")
    parser.add_argument("--out", type=Path, help="a file for the figures, as JSON")
    options = parser.parse_args()
    package = whole_package()
    sample = sample_of(package, options.sample)
    available = len(os.sched_getaffinity(0))
    with environment(options.other) as python:
        timings = measure(python, package, sample, [n for n in (1, 2) if n <= available], options.rounds)
    show(timings)
    if options.out:
        kept = {
            "machine": describe_machine().to_dict(),
            "packages": {name: importlib.metadata.version(name) for name in ("torchcopy", "transformers")}
            | dict(each.split("==") for each in REQUIREMENTS if "==" in each),
            "timings": [dataclasses.asdict(each) for each in timings],
            "ratios": [dataclasses.asdict(each) for each in ratios(timings)],
        }
        write_text(options.out, to_json(kept) + "\n")


if __name__ == "__main__":
    with errors_end("lint.py"):
        main()
