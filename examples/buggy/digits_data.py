"""The handwritten digits that scikit-learn ships, and what the programs of this directory share."""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

Data = tuple[Tensor, Tensor]


def load(train: int = 600, noisy: int = 0) -> tuple[Data, Data, Data]:
    """Images and labels for training, for validation and for the test; the same ones in each run.

    Args:
        train: how many for training; 400 are for validation, all others for the test.
        noisy: how many of the training labels are drawn by lot.
    """
    torch.set_num_threads(1)  # for networks as small as these, a second one only costs
    torch.manual_seed(0)
    digits = load_digits()
    order = torch.randperm(len(digits.target))
    images = torch.from_numpy(digits.data).float()[order] / 16
    labels = torch.from_numpy(digits.target)[order]
    labels[:noisy] = torch.randint(10, (noisy,))
    sizes = [train, 400, len(labels) - train - 400]
    first, second, third = zip(images.split(sizes), labels.split(sizes), strict=True)
    return first, second, third


def network(width: int = 128) -> nn.Sequential:
    """A network of one hidden layer."""
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def train(model: nn.Module, data: Data, epochs: int = 10, lr: float = 3e-3) -> None:
    """Trains with Adam, in batches of 32."""
    images, labels = data
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        for rows in torch.randperm(len(labels)).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()


@torch.no_grad()
def loss_on(model: nn.Module, data: Data) -> float:
    """The mean loss on some data."""
    return nn.functional.cross_entropy(model(data[0]), data[1]).item()


@torch.no_grad()
def accuracy(model: nn.Module, data: Data) -> float:
    """How many of the digits are read correctly, from 0 to 1."""
    return (model(data[0]).argmax(1) == data[1]).float().mean().item()
