"""Keeps the best weights of a network that overfits, in memory, and shows the mistake that keeps none.

Run it with `python examples/best_weights.py`: a few seconds. It learns to read handwritten digits from 300 images.
A fifth of their labels are drawn by lot; after some epochs it begins to learn those by heart.
"""

import copy

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import torchcopy as tc

EPOCHS = 60


def load_data() -> tuple[list[Tensor], list[Tensor]]:
    """Images and labels, each for training, for choosing the best epoch, and for the final test."""
    digits = load_digits()
    order = torch.randperm(len(digits.target))
    images = torch.tensor(digits.data, dtype=torch.float32)[order] / 16
    labels = torch.tensor(digits.target)[order]
    labels[:60] = torch.randint(10, (60,))
    sizes = [300, 500, len(labels) - 800]
    return list(images.split(sizes)), list(labels.split(sizes))


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    return float((model(images).argmax(1) == labels).float().mean())


def main() -> None:
    torch.set_num_threads(1)  # for a network as small as this, a second one only costs
    torch.manual_seed(0)
    (images, val_images, test_images), (labels, val_labels, test_labels) = load_data()
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    history = tc.History(model=model, keep=1, keep_best={"val_loss": "min"})
    mistake, lowest = {}, float("inf")
    for epoch in range(1, EPOCHS + 1):
        for rows in torch.randperm(len(labels)).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            val_loss = float(nn.functional.cross_entropy(model(val_images), val_labels))
        history.take(epoch=epoch, val_loss=val_loss)
        if val_loss < lowest:
            mistake, lowest = model.state_dict(), val_loss  # no copy: these are the tensors that are trained on

    best, last = history.best("val_loss"), history[-1]
    print(f"Loss on validation digits: {best.labels['val_loss']:.3f} after epoch {best.labels['epoch']}, the best,")
    print(f"and {last.labels['val_loss']:.3f} after epoch {last.labels['epoch']}, the last.\n")
    print(f"Read correctly, of {len(test_labels)} digits that played no part in this:")
    print(f"  {accuracy(model, test_images, test_labels):6.1%}  the last weights")

    other = copy.deepcopy(model)
    other.load_state_dict(mistake)
    print(f"  {accuracy(other, test_images, test_labels):6.1%}  `best = model.state_dict()` after the best epoch")

    best.restore()
    print(
        f"  {accuracy(model, test_images, test_labels):6.1%}  the best weights, from `history.best(…).restore()`\n"
    )
    print("`model.state_dict()` holds the live tensors: what it held became the last weights, epoch by epoch.")
    print(f"The history holds {len(history)} snapshots, {history.nbytes / 1e3:.0f} kB: the best and the newest.")


if __name__ == "__main__":
    main()
