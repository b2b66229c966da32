"""What the audit benchmark trains: small networks of the usual kinds, on random numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional


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


def tiny() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)), torch.randn(2, 2)


def mlp() -> tuple[nn.Module, torch.Tensor]:
    layers = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
    return nn.Sequential(*layers), torch.randn(64, 64)


def transformer(width: int) -> tuple[nn.Module, torch.Tensor]:
    layers = [nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.0) for _ in range(4)]
    return nn.Sequential(*layers), torch.randn(16, 64, width)


def cnn() -> tuple[nn.Module, torch.Tensor]:
    stem = nn.Conv2d(3, 64, 3, padding=1)
    blocks = [Residual(64) for _ in range(6)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(stem, *blocks, *head), torch.randn(16, 3, 32, 32)


WORKLOADS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "tiny": tiny,
    "mlp": mlp,
    "transformer, d=64": lambda: transformer(64),
    "transformer, d=256": lambda: transformer(256),
    "cnn": cnn,
}


def training_step(workload: str) -> Callable[[], None]:
    """A function that takes one training step: a forward, a backward and a step of AdamW."""
    torch.manual_seed(0)
    model, x = WORKLOADS[workload]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step
