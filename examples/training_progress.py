"""Shows which layers of a network moved, and when, by comparing snapshots of its training.

Run it with `python examples/training_progress.py`: a few seconds. The first layer is frozen, so that one sees what
"did not move" looks like; and as snapshots share what did not change, it is in memory once.
"""

import itertools

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import torchcopy as tc

EPOCHS = 12


def load_data() -> tuple[Tensor, Tensor]:
    digits = load_digits()
    return torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)


def build() -> nn.Module:
    model = nn.Sequential()
    model.add_module("frozen", nn.Linear(64, 128))
    model.add_module("relu1", nn.ReLU())
    model.add_module("middle", nn.Linear(128, 64))
    model.add_module("relu2", nn.ReLU())
    model.add_module("head", nn.Linear(64, 10))
    model.frozen.requires_grad_(False)
    return model


def main() -> None:
    torch.set_num_threads(1)  # for a network as small as this, a second one only costs
    torch.manual_seed(0)
    images, labels = load_data()
    model = build()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    history = tc.History(model=model, keep=None, mode="lazy", rng=False)

    history.take(epoch=0)
    for epoch in range(1, EPOCHS + 1):
        for rows in torch.randperm(len(labels)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
        history.take(epoch=epoch)

    print("How far each layer moved in an epoch, as a share of the size of its weights:\n")
    print("epoch   " + "".join(f"{name:>9}" for name in ("frozen", "middle", "head")))
    for before, after in itertools.pairwise(history):
        moved = tc.compare(before, after)
        shares = [moved.module(name).relative for name in ("frozen", "middle", "head")]
        print(f"{after.labels['epoch']:>5}   " + "".join(f"{share:>9.1%}" for share in shares))

    print("\nFrom the start to the end, tensor by tensor:\n")
    print(tc.compare(history[0], history[-1]))
    size = sum(t.nbytes for t in model.state_dict().values())
    print(
        f"\n{len(history)} snapshots of {size / 1e3:.0f} kB hold {history.nbytes / 1e3:.0f} kB beside the network."
    )


if __name__ == "__main__":
    main()
