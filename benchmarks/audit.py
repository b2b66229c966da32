"""Measures what an audit costs a training step, against the plain step and `torch.profiler` with stacks.

Run it with `make bench-audit`, or: `python benchmarks/audit.py [--quick] [--only cnn] [--rounds 5] [--out FILE]`
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
from exit_status import errors_end
from rich import box
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional

import torchcopy as tc
from torchcopy._tensors import format_seconds
from torchcopy.reporters.as_json import to_json
from torchcopy.reporters.files import write_text
from torchcopy.semantics.machine import describe_machine

# How many times as long as the plain step an audited one may take.
FLOORS = {"mlp": 3.0, "transformer, d=64": 3.0, "transformer, d=256": 1.5, "cnn": 1.5}


class Residual(nn.Module):
    """Two convolutions and a way around them, as in a ResNet."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of both ways."""
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(x + self.second_norm(self.second(y)))


def mlp() -> tuple[nn.Module, torch.Tensor]:
    layers = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
    return nn.Sequential(*layers), torch.randn(64, 64)


def transformer(width: int) -> tuple[nn.Module, torch.Tensor]:
    layers = [nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.0) for _ in range(4)]
    return nn.Sequential(*layers), torch.randn(16, 64, width)


def cnn() -> tuple[nn.Module, torch.Tensor]:
    stem = nn.Conv2d(3, 64, 3, padding=1)
    blocks = [Residual(64) for _ in range(6)]
    return nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)), torch.randn(
        16, 3, 32, 32
    )


WORKLOADS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "mlp": mlp,
    "transformer, d=64": lambda: transformer(64),
    "transformer, d=256": lambda: transformer(256),
    "cnn": cnn,
}


def profiler() -> Any:
    return torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True
    )


MODES: dict[str, Callable[[], Any]] = {"plain": contextlib.nullcontext, "audited": tc.audit, "profiler": profiler}


def seconds_a_step(workload: str, mode: str, steps: int) -> float:
    """The median of some training steps, each with a forward, a backward and an AdamW step."""
    torch.manual_seed(0)
    model, x = WORKLOADS[workload]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    for _ in range(3):
        step()
    times = []
    with MODES[mode]():
        for _ in range(steps):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of few steps")
    parser.add_argument("--only", choices=WORKLOADS, help="one workload")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a JSON file to keep the results in")
    options = parser.parse_args()
    rounds, console = (1 if options.quick else options.rounds), Console()
    kept: dict[str, Any] = {}
    table = Table(
        "workload", "plain", "audited", "profiler", "audited / plain", "reach", "profiler / plain", box=box.SIMPLE
    )
    for workload in [options.only] if options.only else WORKLOADS:
        steps = 10 if options.quick else 200 if workload == "mlp" else 40
        measured: dict[str, list[float]] = {mode: [] for mode in MODES}
        for _ in range(rounds):
            for mode in MODES:
                measured[mode].append(seconds_a_step(workload, mode, steps))
        ratios = {
            mode: statistics.median(a / b for a, b in zip(measured[mode], measured["plain"], strict=True))
            for mode in MODES
        }
        kept[workload] = {"seconds": measured, "ratios": ratios, "reach": FLOORS[workload]}
        reached = ratios["audited"] <= FLOORS[workload] and ratios["audited"] <= ratios["profiler"]
        table.add_row(
            workload,
            *(format_seconds(statistics.median(measured[mode])) for mode in MODES),
            f"{ratios['audited']:.2f}",
            f"≤ {FLOORS[workload]:g} {'✓' if reached else '✗'}",
            f"{ratios['profiler']:.2f}",
        )
    console.print(table)
    if options.out:
        write_text(options.out, to_json({"machine": describe_machine().to_dict(), "workloads": kept}))


if __name__ == "__main__":
    with errors_end("audit"):
        main()
