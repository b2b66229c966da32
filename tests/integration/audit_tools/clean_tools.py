"""What the training programs here share: data to learn, and a loop's middle."""

import torch


def blobs(count=96, features=8, classes=3, seed=0):
    """Points around one centre a class; the same in every run."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, features, generator=generator) * 2
    labels = torch.randint(classes, (count,), generator=generator)
    return centres[labels] + torch.randn(count, features, generator=generator), labels


def classifier(features=8, classes=3, width=16):
    """A small network with statistics and random numbers in it."""
    return torch.nn.Sequential(
        torch.nn.Linear(features, width),
        torch.nn.BatchNorm1d(width),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.1),
        torch.nn.Linear(width, classes),
    )


def batches(count, size=16):
    """Indices in random order."""
    return torch.randperm(count).split(size)
