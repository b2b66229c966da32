"""Audits a training script with two mistakes, then trains a small network and measures every way to copy it.

The digits are the real ones that scikit-learn ships. Run it with `make demo`, or `python examples/digits.py`; it
takes about a minute on two cores. What it writes lies in `demo-output/`.
"""

from __future__ import annotations

import argparse
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import torchcopy as tc
from torchcopy.reporters import advise as advice_report
from torchcopy.reporters import bench as bench_report
from torchcopy.reporters import table as table_report
from torchcopy.reporters.bench_html import render
from torchcopy.reporters.bench_plot import write_plot
from torchcopy.reporters.files import write_text


def build_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )


def load_data() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    train, test = train_test_split(range(len(labels)), test_size=0.25, random_state=0, stratify=labels)
    return images[train], labels[train], images[test], labels[test]


def train(model: nn.Module, images: Tensor, labels: Tensor, *, epochs: int, batch_size: int = 128) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(labels)).split(batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    model.eval()
    return float((model(images).argmax(1) == labels).float().mean())


def headline(text: str) -> None:
    print(f"\n── {text} " + "─" * max(0, 74 - len(text)))


def audit_two_mistakes() -> None:
    """Runs the script as `torchcopy audit` does, and shows what the command shows."""
    with tc.audit() as audit:
        runpy.run_path(str(Path(__file__).with_name("two_mistakes.py")), run_name="__main__")
    print(audit.report)


def lint_two_mistakes(folder: Path) -> None:
    """Checks a copy of the script, and shows what a fix would change."""
    script = Path(shutil.copy(Path(__file__).with_name("two_mistakes.py"), folder))
    for options in ([], ["--diff", "--unsafe-fixes"]):
        command = ["lint", "--no-cache", *options, str(script)]
        print(f"$ torchcopy {' '.join(command)}", flush=True)
        subprocess.run([sys.executable, "-m", "torchcopy", *command], check=False, stderr=subprocess.STDOUT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each of the two measurements")
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    headline("A training script with two mistakes, audited")
    audit_two_mistakes()

    torch.manual_seed(0)
    train_images, train_labels, test_images, test_labels = load_data()
    model = build_network()
    headline(f"Training on {len(train_labels)} handwritten digits")
    train(model, train_images, train_labels, epochs=arguments.epochs)
    print(
        f"{accuracy(model, test_images, test_labels):.1%} of {len(test_labels)} unseen digits are read correctly."
    )

    headline("What every way to copy does")
    table_report.show(tc.truth_table())

    headline("What it costs on this network's largest weight and one batch")
    tensors = {"weights": model[8].weight, "batch": train_images[:512]}
    tensor_costs = tc.bench_tensor_values(tensors, max_seconds=arguments.seconds)
    bench_report.show(tensor_costs)

    headline("What it costs to copy the whole network")
    model_costs = tc.bench_model(model, factory=build_network, max_seconds=arguments.seconds)
    bench_report.show(model_costs)

    headline("So, to keep a copy of one tensor")
    advice_report.show(tc.advise(numel=model[8].weight.numel()))
    headline("And to keep the best weights, epoch after epoch")
    parameters = sum(p.numel() for p in model.parameters())
    advice_report.show(tc.advise(numel=parameters, nested=True, hot_loop=True))

    headline("Written")
    for name, report in (("tensors", tensor_costs), ("network", model_costs)):
        plot, page = arguments.output / f"copies-of-{name}.png", arguments.output / f"copies-of-{name}.html"
        write_plot(plot, report)
        write_text(page, render(report))
        print(f"plot {plot}\npage {page}")

    headline("The script with two mistakes again, checked without running it")
    lint_two_mistakes(arguments.output)


if __name__ == "__main__":
    main()
