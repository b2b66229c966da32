"""Measures `tc.copy` and its siblings against what users would use instead: on models, a batch, a tree of objects.

Run it with `make bench-copying`, or: `python benchmarks/copying.py [--quick] [--only W3] [--rounds 9] [--out DIR]`
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import importlib.metadata
import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import copying_memory
import copying_processes
import copying_report
import copying_worker
from copying_floors import Row, rows_of, tally
from copying_methods import METHODS, METHODS_FOR, missing
from copying_results import Found, Growth, Measured, growth_of
from copying_worker import GROWTH_METHODS, GROWTH_SIZES, QUICK_GROWTH
from exit_status import errors_end

from torchcopy._errors import InputError
from torchcopy.bench.preflight import has_matplotlib
from torchcopy.reporters.as_json import to_json
from torchcopy.reporters.files import write_text
from torchcopy.reporters.terminal import progress
from torchcopy.semantics.machine import describe_machine
from torchcopy.semantics.sources import parse_device

PARTS = (*METHODS_FOR, "growth")
USUAL = tuple(part for part in PARTS if part != "tiny")
PACKAGES = ("torch", "numpy", "tensordict", "optree", "copium")


@dataclasses.dataclass(frozen=True)
class Options:
    """What is measured, how often, and where it goes.

    Attributes:
        parts: workloads, and `growth`.
        rounds: how many processes each method gets.
        calls: how many calls are timed in a process.
        seconds: how long calls are timed in a process, if that are more, in each state of the memory.
        device: where the tensors are.
        quick: whether this is a first look.
        out: the folder for results.
    """

    parts: tuple[str, ...]
    rounds: int
    calls: int
    seconds: float
    device: str
    quick: bool
    out: Path


@dataclasses.dataclass
class Results:
    """Everything that a run found."""

    found: Found = dataclasses.field(default_factory=dict)
    memory: dict[str, dict[str, dict[str, Any]]] = dataclasses.field(default_factory=dict)
    rows: list[Row] = dataclasses.field(default_factory=list)
    growths: list[Growth] = dataclasses.field(default_factory=list)
    absent: dict[str, str] = dataclasses.field(default_factory=dict)
    run_seconds: float = 0.0

    def failures(self) -> list[str]:
        """What raised and should not have; what a neighbour raises is its own affair, and stands in the table."""
        lines = [
            f"{each.workload} {each.method}: {each.error}"
            for each in self.found.values()
            if each.error is not None and METHODS[each.method].needs is None
        ]
        lines += [
            f"memory of {workload} {method}: {answer['error']}"
            for workload, answers in self.memory.items()
            for method, answer in answers.items()
            if "error" in answer
        ]
        lines += [f"growth of {g.method} with {g.kind}: {g.error}" for g in self.growths if g.error is not None]
        return lines


# --- the parts -----------------------------------------------------------------------------------------------


def measure_times(options: Options, workload: str, absent: dict[str, str]) -> Found:
    """Times of every method on one workload: in each round a process for each, in an order of its own."""
    found: Found = {(workload, m): Measured(workload, m, error=absent.get(m)) for m in METHODS_FOR[workload]}
    shuffle = random.Random(workload).shuffle
    with progress(workload, total=options.rounds * len(found)) as advance:
        for _ in range(options.rounds):
            turn = list(found.values())
            shuffle(turn)
            for each in turn:
                advance(each.method)
                if each.error is None:
                    asked = (workload, each.method, options.device, options.calls, options.seconds)
                    runs = copying_worker.runs_of(each.method)
                    each.add([copying_processes.run(copying_worker.times, *asked, states) for states in runs])
    return found


def measure_memory(options: Options, workload: str) -> dict[str, dict[str, Any]]:
    """What one call takes, by method."""
    methods = copying_memory.CASES.get(workload, ())
    return {m: copying_processes.run(copying_memory.memory, workload, m, options.device) for m in methods}


def measure_growth(options: Options) -> list[Growth]:
    """How times grow with the number of tensors and with bytes."""
    plan = [(kind, method) for kind in GROWTH_SIZES for method in GROWTH_METHODS]
    growths = []
    with progress("growth", total=len(plan)) as advance:
        for kind, method in plan:
            advance(f"with {kind}: {method}")
            largest = QUICK_GROWTH[kind] if options.quick else GROWTH_SIZES[kind][-1]
            asked = (kind, method, options.device, options.calls, options.seconds, largest)
            growths.append(growth_of(kind, method, copying_processes.run(copying_worker.growth, *asked)))
    return growths


def measure(options: Options) -> Results:
    """Measures and prints, a workload at a time."""
    begun = time.monotonic()
    results = Results(absent=missing([part for part in options.parts if part in METHODS_FOR]))
    if set(options.parts) != {"growth"}:
        copying_report.show_legend()
    for part in options.parts:
        if part == "growth":
            results.growths = measure_growth(options)
            copying_report.show_growth(results.growths)
            continue
        found = measure_times(options, part, results.absent)
        results.found.update(found)
        results.memory[part] = measure_memory(options, part)
        rows = rows_of(part, found, results.memory[part])
        results.rows += rows
        copying_report.show_workload(part, found, rows)
    copying_report.show_end(results.rows, results.found, results.absent)
    results.run_seconds = time.monotonic() - begun
    return results


# --- the result ----------------------------------------------------------------------------------------------


def to_data(options: Options, results: Results) -> dict[str, Any]:
    """Everything as plain data, ready for JSON."""
    return {
        "schema": "torchcopy-bench-copying",
        "schema_version": 1,
        "machine": describe_machine().to_dict(),
        "packages": {name: _version(name) for name in PACKAGES},
        "gc_threshold": list(gc.get_threshold()),
        "options": {**dataclasses.asdict(options), "parts": list(options.parts), "out": options.out.name},
        "run_seconds": round(results.run_seconds),
        "floors": tally(results.rows),
        "rows": [row.to_dict() for row in results.rows],
        "missing": results.absent,
        "measurements": [each.to_dict() for each in results.found.values()],
        "memory": [
            {"workload": workload, "method": method, **answer}
            for workload, answers in results.memory.items()
            for method, answer in answers.items()
        ],
        "growth": [growth.to_dict() for growth in results.growths],
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def keep(options: Options, results: Results) -> None:
    """Writes the result as JSON and, where matplotlib is there, as plots."""
    place = options.out / f"copying-{options.device.replace(':', '-')}.json"
    write_text(place, to_json(to_data(options, results)) + "\n")
    print(f"Written to {place}")
    if not has_matplotlib():
        print("Not drawn: matplotlib is not installed")
        return
    import copying_plots

    machine = str(describe_machine())
    for drawn in copying_plots.write_all(place, results.found, results.growths, machine):
        print(f"Drawn: {drawn}")


# --- the command ---------------------------------------------------------------------------------------------


def parse(arguments: list[str] | None = None) -> Options:
    """The options, checked.

    Raises:
        InputError: one of them has no such value.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a first look: one round of few calls")
    parser.add_argument(
        "--only", action="append", metavar="PART", help=f"{', '.join(PARTS)}; repeat, or use commas"
    )
    parser.add_argument("--rounds", type=int, help="processes for each method (default: 5; 1 if quick)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, … (default: cpu)")
    parser.add_argument("--out", type=Path, default=Path("bench-output"), help="folder (default: bench-output)")
    given = parser.parse_args(arguments)
    wanted = ",".join(given.only).split(",") if given.only else USUAL
    unknown = [part for part in wanted if part not in PARTS]
    if unknown:
        raise InputError(f"there is no part {unknown[0]!r}: choose from {', '.join(PARTS)}")
    rounds = given.rounds if given.rounds is not None else 1 if given.quick else 5
    if rounds < 1:
        raise InputError(f"`--rounds` must be at least 1; got {rounds}")
    return Options(
        parts=tuple(part for part in PARTS if part in wanted),
        rounds=rounds,
        calls=2 if given.quick else 3,
        seconds=0.02 if given.quick else 0.15,
        device=str(parse_device(given.device)),
        quick=given.quick,
        out=given.out,
    )


def main(arguments: list[str] | None = None) -> int:
    with errors_end("copying"):
        options = parse(arguments)
        options.out.mkdir(parents=True, exist_ok=True)
        results = measure(options)
        keep(options, results)
    failed = results.failures()
    for line in failed:
        print(f"copying: error: {line}", file=sys.stderr)
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
