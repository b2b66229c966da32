"""Averages the weights of the last epochs, or lets them vote: what each gains over the weights of the last epoch.

Run it with `python examples/checkpoint_averaging.py`: some ten seconds. Each training keeps snapshots of its last
epochs. With right labels the weights come to rest, and little is to be gained; with some wrong ones they never do.
Nothing is chosen by the digits that the accuracy is measured on.
"""

import statistics

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import torchcopy as tc

SEEDS, EPOCHS, KEPT = 5, 25, 10


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def load_data(wrong: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """500 training images and their labels, some of them drawn by lot, and those of the test."""
    digits = load_digits()
    order = torch.randperm(len(digits.target))
    images, labels = torch.tensor(digits.data, dtype=torch.float32)[order] / 16, torch.tensor(digits.target)[order]
    labels[:wrong] = torch.randint(10, (wrong,))
    return images[:500], labels[:500], images[500:], labels[500:]


def train(model: nn.Module, images: Tensor, labels: Tensor) -> tc.History:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    history = tc.History(model=model, keep=KEPT, rng=False)
    for epoch in range(EPOCHS):
        for rows in torch.randperm(len(labels)).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
        history.take(epoch=epoch)
    return history


@torch.no_grad()
def accuracy_of_vote(models: list[nn.Module], images: Tensor, labels: Tensor) -> float:
    """How often the mean of the models' probabilities is largest at the right digit."""
    probabilities = sum(model(images).softmax(1) for model in models)
    return 100 * float((probabilities.argmax(1) == labels).float().mean())


def run(seed: int, wrong: int) -> tuple[float, float, float]:
    """The accuracy of the last weights, of the average, and of the vote."""
    torch.manual_seed(seed)
    images, labels, test_images, test_labels = load_data(wrong)
    model = build()
    history = train(model, images, labels)
    last = accuracy_of_vote([model], test_images, test_labels)
    vote = accuracy_of_vote([each.build(model=build) for each in history], test_images, test_labels)
    model.load_state_dict(tc.average(history))
    return last, accuracy_of_vote([model], test_images, test_labels), vote


def main() -> None:
    torch.set_num_threads(1)  # for a network as small as this, a second one only costs
    print(f"Digits never seen that are read correctly, mean of {SEEDS} trainings with other splits and starts.")
    print("The gain is in points, with its standard error.")
    for name, wrong in (("All labels right", 0), ("A fifth of the labels drawn by lot", 100)):
        last, average, vote = zip(*(run(seed, wrong) for seed in range(SEEDS)), strict=True)
        print(f"\n{name}:\n  {statistics.mean(last):5.1f}%  the last weights")
        for way, found in ((f"the average of the last {KEPT} epochs", average), (f"a vote of those {KEPT}", vote)):
            gains = [b - a for a, b in zip(last, found, strict=True)]
            error = statistics.stdev(gains) / SEEDS**0.5
            print(f"  {statistics.mean(found):5.1f}%  {way}: {statistics.mean(gains):+.2f} ± {error:.2f}")
    print(f"\nTo use the average costs what one network costs, the vote {KEPT} times that.")


if __name__ == "__main__":
    main()
