"""Goes back to where training was good, after a learning rate that is far too large has ruined it.

Run it with `python examples/rollback.py`: a few seconds. The loops of Lightning, Transformers and Ignite have this
ready, in `torchcopy.integrations`.
"""

import copy
import math

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import torchcopy as tc

STEPS, SPIKE_AT = 400, 155


def load_data() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images and labels, and those of the test."""
    digits = load_digits()
    order = torch.randperm(len(digits.target))
    images, labels = torch.tensor(digits.data, dtype=torch.float32)[order] / 16, torch.tensor(digits.target)[order]
    return images[:1200], labels[:1200], images[1200:], labels[1200:]


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    return float((model(images).argmax(1) == labels).float().mean())


def train(model: nn.Module, images: Tensor, labels: Tensor, *, go_back: bool) -> None:
    """Trains with momentum; at one step the learning rate becomes a thousand times as large."""
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    # Without the random numbers: the same ones again would lead to the same end.
    history = tc.History(model=model, optimizer=optimizer, keep=2, mode="lazy", rng=False)
    usual = math.log(10)  # what guessing costs
    for step in range(STEPS):
        if step == SPIKE_AT:
            optimizer.param_groups[0]["lr"] *= 1000
        rows = torch.randint(len(labels), (64,), generator=generator)
        loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
        if go_back and not loss.item() < 3 * usual:  # NaN is not smaller than anything
            good = history[-1]
            good.restore()  # the learning rate of that time included
            optimizer.param_groups[0]["lr"] /= 2
            print(f"step {step}: the loss is {loss.item():.3g}. Back to step {good.labels['step']}, ", end="")
            print(
                f"where it was {good.labels['loss']:.3g}; the learning rate is {optimizer.param_groups[0]['lr']:g}"
            )
            continue
        if go_back and step % 10 == 0:
            history.take(step=step, loss=loss)  # these weights gave a good loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main() -> None:
    torch.set_num_threads(1)  # for a network as small as this, a second one only costs
    torch.manual_seed(0)
    images, labels, test_images, test_labels = load_data()
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    same_start = copy.deepcopy(model)

    print(f"{STEPS} steps, and at step {SPIKE_AT} the learning rate becomes 1000 times as large.")
    train(model, images, labels, go_back=True)
    train(same_start, images, labels, go_back=False)
    print(f"\nRead correctly, of {len(test_labels)} digits that it never saw:")
    print(f"  {accuracy(model, test_images, test_labels):6.1%}  with the way back")
    print(f"  {accuracy(same_start, test_images, test_labels):6.1%}  without it")


if __name__ == "__main__":
    main()
