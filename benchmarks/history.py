"""Measures `tc.History` against what users would use instead: takes, restores, what training loses, memory.

Run it with `make bench-history`, or: `python benchmarks/history.py [--quick] [--only W4] [--rounds 3] [--out DIR]`
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import copying_processes
import history_plots
import history_worker
from copying_workloads import WORKLOADS
from exit_status import errors_end
from rich import box
from rich.console import Console
from rich.table import Table

from torchcopy._errors import MeasurementError
from torchcopy._tensors import format_bytes, format_seconds
from torchcopy.reporters.as_json import to_json
from torchcopy.reporters.files import write_text
from torchcopy.reporters.terminal import progress
from torchcopy.semantics.machine import describe_machine

TITLES = {
    **{name: workload.title for name, workload in WORKLOADS.items()},
    "W7": "W4 with one parameter in a hundred trained",
}
PARTS = ("W1", "W2", "W3", "W4", "W7", "loop")


@dataclasses.dataclass(frozen=True)
class Row:
    """A figure, in each round, and the floor that it is to reach.

    Attributes:
        workload: which.
        what: what was done.
        against: what it is compared with.
        values: one a round.
        floor: at least this; at most, if `most`.
        most: whether less is better.
        unit: of the values; empty for how many times as fast.
    """

    workload: str
    what: str
    against: str
    values: tuple[float, ...]
    floor: float | None = None
    most: bool = False
    unit: str = ""

    @property
    def median(self) -> float:
        """Over the rounds."""
        return statistics.median(self.values)

    @property
    def is_reached(self) -> bool | None:
        """Whether the median reaches the floor; None without one."""
        if self.floor is None:
            return None
        return self.median <= self.floor if self.most else self.median >= self.floor

    def to_dict(self) -> dict[str, Any]:
        """The row as plain data, ready for JSON."""
        return {**dataclasses.asdict(self), "median": self.median, "is_reached": self.is_reached}


def _times(answers: list[dict[str, Any]], key: str = "seconds") -> list[float]:
    return [statistics.median(answer[key]) for answer in answers]


def _ratios(slower: Iterable[float], faster: Iterable[float]) -> tuple[float, ...]:
    return tuple(a / b for a, b in zip(slower, faster, strict=True))


class Benchmark:
    """Runs what is wanted, a process for each method and round, methods in turns."""

    def __init__(self, rounds: int, calls: int) -> None:
        self.rounds, self.calls = rounds, calls
        self.seconds: dict[str, float] = {}
        self.loop: dict[str, dict[str, Any]] = {}

    def _in_turns(self, function: Callable[..., dict[str, Any]], *choices: tuple[Any, ...]) -> list[list[Any]]:
        answers: list[list[Any]] = [[] for _ in choices]
        for turn in range(self.rounds):
            order = range(len(choices)) if turn % 2 == 0 else reversed(range(len(choices)))
            for k in order:
                answer = copying_processes.run(function, *choices[k])
                if "error" in answer:
                    raise MeasurementError(f"{function.__name__}{choices[k]}: {answer['error']}")
                answers[k].append(answer)
        return answers

    def takes(self, workload: str) -> Iterator[Row]:
        """What a snapshot costs, in each mode that the training thread does by itself."""
        methods = tuple(history_worker.TAKES)
        few = max(3, self.calls if workload != "W3" else 4 * self.calls)
        answers = self._in_turns(
            history_worker.time_takes,
            *((workload, method, few, True) for method in methods),
            (workload, "lazy", 4 * few, False),
        )
        times = {method: _times(found) for method, found in zip((*methods, "unchanged"), answers, strict=True)}
        tensors = answers[0][0]["tensors"]
        self.seconds.update({f"{workload} {m}": statistics.median(t) for m, t in times.items()})
        w4 = workload == "W4"
        deep = {"W4": 3.0, "W3": 10.0}.get(workload)
        yield Row(workload, "take, eager", "deepcopy", _ratios(times["deepcopy"], times["eager"]), deep)
        for peer, floor in (("StateDictStager", 1.3), ("_copy_state_dict", 1.0)):
            yield Row(workload, "take, eager", peer, _ratios(times[peer], times["eager"]), floor if w4 else None)
        limit = _ratios(times["limit"], times["eager"])
        yield Row(workload, "take, eager", "the warm limit", limit, 0.9 if w4 else None)
        yield Row(
            workload, "take, lazy", "deepcopy", _ratios(times["deepcopy"], times["lazy"]), 300.0 if w4 else None
        )
        per_tensor = tuple(1e6 * t / tensors for t in times["unchanged"])
        yield Row(workload, "take, lazy, unchanged", "a tensor", per_tensor, 1.5 if w4 else None, True, "µs")

    def steps(self, workload: str) -> Iterator[Row]:
        """What the training thread loses in the background mode: the call, and what the next step is slower."""
        eager, background = self._in_turns(
            history_worker.time_steps, (workload, "eager", self.calls), (workload, "background", self.calls)
        )
        lost: dict[str, list[float]] = {}
        for mode, answers in (("eager", eager), ("background", background)):
            plain, after, call = (_times(answers, key) for key in ("plain", "after", "call"))
            lost[mode] = [c + max(0.0, a - p) for c, a, p in zip(call, after, plain, strict=True)]
            lost[f"{mode} call"] = call
            self.seconds[f"{workload} step"] = statistics.median(plain)
            self.seconds[f"{workload} lost, {mode}"] = statistics.median(lost[mode])
            self.seconds[f"{workload} call, {mode}"] = statistics.median(call)
        against = "what eager loses"
        both = _ratios(lost["background"], lost["eager"])
        yield Row(workload, "background: call and next step", against, both, 0.25, True)
        call = _ratios(lost["background call"], lost["eager"])
        yield Row(workload, "background: the call", against, call, 0.05, True)

    def restores(self, workload: str) -> Iterator[Row]:
        """What it costs to go back."""
        methods = ("load_state_dict", "load_state_dict, aliased", "eager", "lazy", "background")
        answers = self._in_turns(history_worker.time_restores, *((workload, m, self.calls) for m in methods))
        times = {method: _times(found) for method, found in zip(methods, answers, strict=True)}
        self.seconds.update({f"{workload} restore, {m}": statistics.median(t) for m, t in times.items()})
        for mode in ("eager", "lazy", "background"):
            yield Row(
                workload, f"restore, {mode}", methods[0], _ratios(times[methods[0]], times[mode]),
                1.5 if workload == "W4" else None,
            )  # fmt: skip
            if workload == "W4":
                yield Row(workload, f"restore, {mode}", methods[1], _ratios(times[methods[1]], times[mode]))

    def memory(self, workload: str, quick: bool) -> Iterator[Row]:
        """What many snapshots hold, measured as resident set."""
        few, many = 3, 10 if quick else 100
        deep, lazy = self._memory(workload, "deepcopy", few), self._memory(workload, "lazy", many)
        whole = deep["grown_bytes"][-1] / few * many
        yield Row(
            workload, f"{many} snapshots, lazy: resident", f"deepcopies ({few} measured)",
            (lazy["grown_bytes"][-1] / whole,), 1 / 40, True,
        )  # fmt: skip
        self.seconds[f"{workload} bytes"] = lazy["grown_bytes"][-1]

    def _memory(self, workload: str, method: str, count: int) -> dict[str, Any]:
        answer = copying_processes.run(history_worker.measure_memory, workload, method, count)
        if "error" in answer:
            raise MeasurementError(f"memory of {method}: {answer['error']}")
        return answer

    def loops(self, snapshots: int) -> None:
        """A training loop with a snapshot after each step, for the plot."""
        for method in ("deepcopy", "eager", "lazy", "background"):
            self.loop[method] = copying_processes.run(history_worker.measure_loop, "W2", method, snapshots)


def _cell(row: Row) -> str:
    spread = statistics.quantiles(row.values, n=4) if len(row.values) > 1 else (row.median,) * 3
    half = (spread[2] - spread[0]) / 2 / row.median if row.median else 0.0
    mark = {None: "", True: " ✓", False: " ✗"}[row.is_reached]
    return f"{row.median:.3g}{row.unit and ' ' + row.unit}±{half:.0%}{mark}"


def show(rows: list[Row], seconds: dict[str, float]) -> None:
    """Prints a table for each workload, the times behind the ratios, and how many floors were reached."""
    out = Console(highlight=False)
    out.print("How many times as fast, in the same round: median of the rounds, ± half of", style="dim")
    out.print("what lies between their quartiles.\n", style="dim")
    for workload in dict.fromkeys(row.workload for row in rows):
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
        for heading, right in (("what", False), ("against", False), ("floor", True), ("found", True)):
            table.add_column(heading, no_wrap=True, justify="right" if right else "left")
        for row in rows:
            if row.workload == workload:
                floor = "" if row.floor is None else f"{'≤' if row.most else '≥'} {row.floor:.3g}"
                table.add_row(f"{row.what} ", f"{row.against} ", floor, f" {_cell(row)}")
        out.print(f"{workload}  {TITLES[workload]}", style="bold")
        out.print(table)
        listed = (
            f"{name.removeprefix(workload).strip()} {_value(name, value)}"
            for name, value in seconds.items()
            if name.startswith(workload)
        )
        out.print(f"\n{'; '.join(listed)}.\n", style="dim")
    reached = [row.is_reached for row in rows if row.is_reached is not None]
    out.print(f"Floors reached: {sum(reached)} of {len(reached)}.")


def _value(name: str, value: float) -> str:
    return format_bytes(value) if name.endswith("bytes") else format_seconds(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of few calls")
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; again for more")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("bench-output"))
    options = parser.parse_args()
    parts = tuple(options.only or PARTS)
    rounds, calls = (1, 3) if options.quick else (options.rounds, options.calls)
    with errors_end("history.py"), progress("history", len(parts)) as tell:
        benchmark = Benchmark(rounds, calls)
        rows: list[Row] = []
        for part in parts:
            tell(part)
            if part == "loop":
                benchmark.loops(20 if options.quick else 100)
                continue
            if part != "W7":
                rows += benchmark.takes(part)
                rows += benchmark.restores(part)
            if part == "W4":
                rows += benchmark.steps(part)
            if part == "W7":
                rows += benchmark.memory(part, options.quick)
    with errors_end("history.py"):
        show(rows, benchmark.seconds)
        record = {
            "machine": describe_machine().to_dict(),
            "rounds": rounds,
            "calls": calls,
            "rows": [row.to_dict() for row in rows],
            "seconds": benchmark.seconds,
            "loop": benchmark.loop,
        }
        options.out.mkdir(parents=True, exist_ok=True)
        write_text(options.out / "history-cpu.json", to_json(record))
        print(f"Written to {options.out / 'history-cpu.json'}")
        if benchmark.loop:
            print(f"Drawn: {history_plots.draw(benchmark.loop, options.out / 'history-cpu-loop.png')}")


if __name__ == "__main__":
    main()
