"""Adds a skip connection in place to what sigmoid has saved for the backward: training stops at the first step."""

import torch
from digits_data import accuracy, load, train
from torch import Tensor, nn


class Block(nn.Module):
    """A layer with a way around it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """What the layer says, and what it was given."""
        out = torch.sigmoid(self.linear(x))
        out += x
        return out


training, _, test = load()
model = nn.Sequential(Block(64), Block(64), nn.Linear(64, 10))
try:
    train(model, training)
except RuntimeError as error:
    print(f"training stopped: {str(error).partition('.')[0]}")
print(f"accuracy: {accuracy(model, test):.1%}")
