"""Measures what an audit costs a training run, against the plain run, `torch.profiler` with stacks, and Scalene.

Run it with `make bench-audit`, or: `python benchmarks/audit.py [--quick] [--only cnn] [--rounds 3] [--out FILE]`
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from audit_workloads import WORKLOADS
from exit_status import errors_end
from rich import box
from rich.console import Console
from rich.table import Table

from torchcopy._tensors import format_bytes, format_seconds
from torchcopy.reporters.as_json import to_json
from torchcopy.reporters.files import write_text
from torchcopy.semantics.machine import describe_machine

# How many times as long as the plain step an audited one may take.
FLOORS = {"mlp": 3.0, "transformer, d=64": 3.0, "transformer, d=256": 1.5, "cnn": 1.5}
MEMORY_FLOOR_BYTES = 200_000_000
MODES = ("plain", "audited", "profiler", "scalene")
_WORKER = Path(__file__).with_name("audit_worker.py")
_PATIENCE_SECONDS = 1800
_WIDTH = 80


def measure(what: str, workload: str, mode: str, count: int) -> dict[str, Any]:
    """What `audit_worker.py` answers in a process of its own, or `{"error": …}`."""
    arguments = [what, workload, mode, str(count)]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(_WORKER), *arguments]
        if mode == "scalene":
            if importlib.util.find_spec("scalene") is None:
                return {"error": "not installed"}
            profile = ["-m", "scalene", "run", "--memory", "-o", str(Path(folder) / "profile.json"), str(_WORKER)]
            command = [sys.executable, *profile, "---", what, workload, "plain", str(count)]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return {"error": f"it took more than {_PATIENCE_SECONDS} s"}
    answers = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not answers:
        reason = (done.stderr.strip().splitlines() or [f"its process ended with status {done.returncode}"])[-1]
        return {"error": reason}
    answer: dict[str, Any] = json.loads(answers[-1])
    if mode == "scalene":
        del answer["whole"]  # that is the time of the loop alone: the profile is made when the process ends
    return answer


def measure_steps(workload: str, *, rounds: int, quick: bool) -> dict[str, Any]:
    """The medians of all modes, in turns, and their ratios to the plain run of the same round."""
    steps = 10 if quick else 200 if workload == "mlp" else 40
    found: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
    for at in range(rounds):
        for mode in MODES[at % len(MODES) :] + MODES[: at % len(MODES)]:
            failed = found[mode] and "error" in found[mode][-1]
            found[mode].append(found[mode][-1] if failed else measure("steps", workload, mode, steps))
    errors = {
        mode: next((each["error"] for each in answers if "error" in each), None) for mode, answers in found.items()
    }
    kept: dict[str, Any] = {"steps": steps, "reach": FLOORS[workload]}
    kept["errors"] = {mode: error for mode, error in errors.items() if error}
    for what in ("step", "whole"):
        seconds = {m: [e[what] for e in found[m]] for m in MODES if not errors[m] and what in found[m][0]}
        kept[f"{what}_seconds"] = seconds
        kept[f"{what}_ratios"] = {
            mode: statistics.median(a / b for a, b in zip(times, seconds["plain"], strict=True))
            for mode, times in seconds.items()
            if "plain" in seconds
        }
    step, whole = kept["step_ratios"], kept["whole_ratios"]
    kept["reached"] = {
        "step": "audited" in step and step["audited"] <= FLOORS[workload],
        "faster than the profiler": {"audited", "profiler"} <= whole.keys()
        and whole["audited"] < whole["profiler"],
    }
    return kept


def measure_memory(*, quick: bool) -> dict[str, Any]:
    """By how much more than the plain process an audited one grows."""
    steps = 2_000 if quick else 100_000
    found = {mode: measure("memory", "tiny", mode, steps) for mode in ("plain", "audited")}
    kept: dict[str, Any] = {"steps": steps, "reach_bytes": MEMORY_FLOOR_BYTES}
    kept["errors"] = {mode: answer["error"] for mode, answer in found.items() if "error" in answer}
    if not kept["errors"]:
        kept["growth_bytes"] = {mode: answer["growth_bytes"] for mode, answer in found.items()}
        kept["added_bytes"] = kept["growth_bytes"]["audited"] - kept["growth_bytes"]["plain"]
        kept["reached"] = kept["added_bytes"] <= MEMORY_FLOOR_BYTES
    return kept


def show_steps(console: Console, kept: dict[str, dict[str, Any]]) -> None:
    table = Table("workload", "mode", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("step", "÷ plain", "whole", "÷ plain"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("reach")
    for workload, each in kept.items():
        for mode in MODES:
            table.add_row(workload if mode == "plain" else "", mode, *_cells(each, mode), _reach(each, mode))
        table.add_section()
    console.print(table)
    console.print("step: the median. whole: from the beginning to having the result, a step;")
    console.print("> audited: so measured, the profiler takes longer.")


def _cells(kept: dict[str, Any], mode: str) -> list[str]:
    cells = []
    for what in ("step", "whole"):
        times = kept[f"{what}_seconds"].get(mode)
        cells.append("–" if times is None else format_seconds(statistics.median(times)))
        ratio = kept[f"{what}_ratios"].get(mode)
        cells.append("–" if ratio is None else "" if mode == "plain" else f"{ratio:.2f}")
    return cells


def _reach(kept: dict[str, Any], mode: str) -> str:
    if mode in kept["errors"]:
        return str(kept["errors"][mode])
    if mode == "audited":
        return f"step ≤ {kept['reach']:g} {_mark(kept['reached']['step'])}"
    if mode == "profiler":
        return f"> audited {_mark(kept['reached']['faster than the profiler'])}"
    return ""


def show_memory(console: Console, kept: dict[str, Any]) -> None:
    if kept["errors"]:
        console.print(f"resident memory: {'; '.join(kept['errors'].values())}")
        return
    grown, reach = kept["growth_bytes"], kept["reach_bytes"]
    console.print(
        f"resident memory over {kept['steps']:,} steps of the tiniest MLP: plain grows by"
        f" {format_bytes(grown['plain'])}, audited by {format_bytes(kept['added_bytes'])} more"
        f" (reach: ≤ {format_bytes(reach)} {_mark(kept['reached'])})"
    )


def _mark(reached: bool) -> str:
    return "✓" if reached else "✗"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of few steps")
    parser.add_argument("--only", choices=[*FLOORS, "memory"], help="one workload, or the memory")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="a JSON file to keep the results in")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    console = Console(width=_WIDTH, highlight=False)
    kept: dict[str, Any] = {"machine": describe_machine().to_dict(), "packages": _packages(), "workloads": {}}
    rounds = 1 if options.quick else options.rounds
    for workload in [options.only] if options.only in WORKLOADS else [] if options.only else FLOORS:
        kept["workloads"][workload] = measure_steps(workload, rounds=rounds, quick=options.quick)
    if kept["workloads"]:
        show_steps(console, kept["workloads"])
    if options.only in (None, "memory"):
        kept["memory"] = measure_memory(quick=options.quick)
        show_memory(console, kept["memory"])
    if options.out:
        write_text(options.out, to_json(kept) + "\n")


def _packages() -> dict[str, str]:
    names = [name for name in ("torch", "scalene") if importlib.util.find_spec(name) is not None]
    return {name: importlib.metadata.version(name) for name in names}


if __name__ == "__main__":
    with errors_end("audit"):
        main()
