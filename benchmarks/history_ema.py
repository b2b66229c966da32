"""Measures `tc.EMA.update` against what users would use instead, on a model.

Run it with: `python benchmarks/history_ema.py [--only W2] [--turns 60] [--runs 3] [--device cuda] [--out DIR]`

In each turn every method updates its own average of one model, in an order of its own; before each update all that
a training step writes is written. A ratio is of two times of one turn. The limit is one `torch._foreach_lerp_` over
the same weights, in lists made before: what an update cannot be quicker than.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import importlib.metadata
import importlib.util
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import copying_processes
import torch
from copying_workloads import WORKLOADS
from exit_status import errors_end
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import torchcopy as tc
from torchcopy._errors import InputError, MeasurementError
from torchcopy.reporters.as_json import to_json
from torchcopy.reporters.files import write_text
from torchcopy.semantics.machine import describe_machine
from torchcopy.semantics.sources import parse_device

DECAY = 0.999
PARTS = ("W1", "W2", "W3", "tiny")


@dataclasses.dataclass(frozen=True)
class Method:
    """One way to keep an average.

    Attributes:
        label: how the table names it.
        prepare: makes the average of a model, and returns the call that updates it, and the average as a module.
        floor: how many times as fast the library's way has to be on W2; None where nothing is asked for.
        needs: the module that it comes from, if it may be missing.
    """

    label: str
    prepare: Callable[[nn.Module], tuple[Callable[[], object], nn.Module]]
    floor: float | None = None
    needs: str | None = None

    @property
    def missing(self) -> str | None:
        """Why it cannot be measured here; None where it can."""
        if self.needs is None or importlib.util.find_spec(self.needs) is not None:
            return None
        return f"{self.needs} is not installed"


def _ours(model: nn.Module, buffers: Any) -> tuple[Callable[[], object], nn.Module]:
    ema = tc.EMA(model, DECAY, buffers=buffers)
    return ema.update, ema.model


def _averaged_model(model: nn.Module, use_buffers: bool) -> tuple[Callable[[], object], nn.Module]:
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(DECAY), use_buffers=use_buffers)
    averaged.update_parameters(model)  # its first call copies
    return lambda: averaged.update_parameters(model), averaged.module


def _ema_pytorch(model: nn.Module, **options: Any) -> tuple[Callable[[], object], nn.Module]:
    import ema_pytorch

    ema = ema_pytorch.EMA(
        model,
        beta=DECAY,
        min_value=DECAY,
        update_after_step=0,
        update_every=1,
        include_online_model=False,
        **options,
    )
    for _ in range(3):  # its first calls copy
        ema.update()
    return ema.update, ema.ema_model


def _limit(model: nn.Module) -> tuple[Callable[[], object], nn.Module]:
    average = tc.copy(model)
    ours, theirs = ([p.detach() for p in m.parameters()] for m in (average, model))
    return lambda: torch._foreach_lerp_(ours, theirs, 1 - DECAY), average


METHODS = {
    "tc.EMA": Method("tc.EMA", lambda m: _ours(m, "average")),
    "tc.EMA copying buffers": Method("tc.EMA(buffers='copy')", lambda m: _ours(m, "copy")),
    "averaged_model": Method("AveragedModel", lambda m: _averaged_model(m, False), 1.0),
    "averaged_buffers": Method("AveragedModel(use_buffers=True)", lambda m: _averaged_model(m, True), 1.0),
    "ema_pytorch": Method("ema-pytorch", _ema_pytorch, 1.5, "ema_pytorch"),
    "ema_pytorch_foreach": Method(
        "ema-pytorch(use_foreach=True)", lambda m: _ema_pytorch(m, use_foreach=True), None, "ema_pytorch"
    ),
    "limit": Method("one _foreach_lerp_", _limit),
}
# `AveragedModel` copies buffers by default, and so is held against the way that does.
OURS_FOR = {"averaged_model": "tc.EMA copying buffers"}


# --- one process -----------------------------------------------------------------------------------------------


def times(workload: str, device: str, turns: int, seed: int) -> dict[str, list[float]]:
    """Seconds of each update, by method, turn by turn. Runs in a process of its own."""
    on = torch.device(device)
    model = WORKLOADS[workload].build(on).whole
    prepared = {key: method.prepare(model) for key, method in METHODS.items() if method.missing is None}
    _check(model, prepared)
    found: dict[str, list[float]] = {key: [] for key in prepared}
    order, rng = list(prepared), random.Random(seed)
    for _ in range(3):
        for update, _ in prepared.values():
            _train(model)
            update()
    gc.collect()
    for _ in range(turns):
        rng.shuffle(order)
        for key in order:
            _train(model)
            _wait(on)
            begun = time.perf_counter()
            prepared[key][0]()
            _wait(on)
            found[key].append(time.perf_counter() - begun)
    return found


def _train(model: nn.Module) -> None:
    """Writes what a training step writes."""
    with torch.no_grad():
        for t in (*model.parameters(), *model.buffers()):
            t.add_(1 if not t.is_floating_point() else 1e-3)


def _check(model: nn.Module, prepared: dict[str, tuple[Callable[[], object], nn.Module]]) -> None:
    """Whether all averages move as they should.

    Raises:
        InputError: one does not.
    """
    before = {key: _first(average).clone() for key, (_, average) in prepared.items()}
    _train(model)
    for key, (update, average) in prepared.items():
        update()
        expected = torch.lerp(before[key], _first(model), 1 - DECAY)
        if not torch.allclose(_first(average), expected, rtol=1e-5) or torch.equal(_first(average), before[key]):
            raise InputError(f"{METHODS[key].label} did not move its average as it should")


def _first(model: nn.Module) -> Tensor:
    return next(model.parameters()).detach()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


# --- the table -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How many times as fast one method is as another.

    Attributes:
        what: the one.
        against: the other.
        quartiles: of the ratios of all turns.
        runs: the median of each process.
        floor: what the median has to reach; None where nothing is asked for.
    """

    what: str
    against: str
    quartiles: tuple[float, float, float]
    runs: tuple[float, ...]
    floor: float | None

    @property
    def reached(self) -> bool | None:
        """Whether the median over the turns of all processes reaches the floor."""
        return None if self.floor is None else self.quartiles[1] >= self.floor

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {**dataclasses.asdict(self), "reached": self.reached}


def ratios_of(workload: str, runs: list[dict[str, list[float]]]) -> list[Ratio]:
    """Every other method's time over ours, turn by turn."""
    found = []
    for key, method in METHODS.items():
        if key.startswith("tc.") or key not in runs[0]:
            continue
        ours = OURS_FOR.get(key, "tc.EMA")
        each = [[b / a for a, b in zip(run[ours], run[key], strict=True)] for run in runs]
        low, median, high = statistics.quantiles([r for one in each for r in one])
        medians = tuple(statistics.median(one) for one in each)
        floor = method.floor if workload == "W2" else None
        found.append(Ratio(METHODS[ours].label, method.label, (low, median, high), medians, floor))
    return found


def show(workload: str, runs: list[dict[str, list[float]]], ratios: list[Ratio]) -> None:
    print(f"{workload}: {WORKLOADS[workload].title}, ms for an update")
    for key in runs[0]:
        low, median, high = statistics.quantiles([1e3 * s for run in runs for s in run[key]])
        print(f"  {METHODS[key].label:<32}{median:8.2f}  ({low:.2f} … {high:.2f})")
    for method in METHODS.values():
        if method.missing:
            print(f"  {method.label:<32} not measured: {method.missing}")
    print("times as fast, medians and quartiles of the ratios of single turns")
    for r in ratios:
        low, median, high = r.quartiles
        verdict = "" if r.floor is None else f", floor {r.floor}: {'reached' if r.reached else 'MISSED'}"
        print(f"  {r.what:<24}{r.against:<32}{median:6.2f}  ({low:.2f} … {high:.2f}){verdict}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="history_ema", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", metavar="PART", help=f"one of {', '.join(PARTS)}; W2 by default")
    parser.add_argument("--turns", type=int, default=60, help="how often each method is timed in a process")
    parser.add_argument("--runs", type=int, default=3, help="how many processes")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("bench-output"), help="the folder for the results")
    given = parser.parse_args(arguments)
    with errors_end("history_ema"):
        if given.turns < 2 or given.runs < 1:
            raise InputError("give at least 2 --turns and 1 --runs")
        device = str(parse_device(given.device))
        data: dict[str, Any] = {"machine": describe_machine().to_dict(), "versions": _versions(), "workloads": {}}
        for part in given.only or ["W2"]:
            if part not in PARTS:
                raise InputError(f"there is no part {part!r}: choose from {', '.join(PARTS)}")
            asked = (part, device, given.turns)
            runs = [copying_processes.run(times, *asked, seed) for seed in range(given.runs)]
            for run in runs:
                if "error" in run:
                    raise MeasurementError(f"{part} could not be measured: {run['error']}")
            ratios = ratios_of(part, runs)
            show(part, runs, ratios)
            data["workloads"][part] = {"seconds": runs, "ratios": [each.to_dict() for each in ratios]}
        given.out.mkdir(parents=True, exist_ok=True)
        path = given.out / f"history-ema-{device.partition(':')[0]}.json"
        write_text(path, to_json(data) + "\n")
        print(f"Written to {path}")


def _versions() -> dict[str, str]:
    found = {"torch": torch.__version__, "torchcopy": tc.__version__}
    if METHODS["ema_pytorch"].missing is None:
        found["ema-pytorch"] = importlib.metadata.version("ema-pytorch")
    return found


if __name__ == "__main__":
    main()
