"""Trains a small network on handwritten digits, with two mistakes planted for `torchcopy audit` to find.

Run it with `torchcopy audit examples/two_mistakes.py`; `make demo` does. One mistake makes the result wrong, and
PyTorch says nothing; the other one costs time and memory.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn


def main() -> None:
    torch.manual_seed(0)
    digits = load_digits()
    images = torch.from_numpy(digits.images).float().flatten(1) / 16
    labels = torch.from_numpy(digits.target)
    training, validation = slice(None, 300), slice(300, 900)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    best, highest = model.state_dict(), 0.0
    for _ in range(30):
        for rows in torch.randperm(300).split(50):
            batch = images[training][rows].clone()
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(batch), labels[training][rows]).backward()
            optimizer.step()
        with torch.no_grad():
            accuracy = (model(images[validation]).argmax(1) == labels[validation]).float().mean().item()
        if accuracy > highest:
            best, highest = model.state_dict(), accuracy
    model.load_state_dict(best)
    print(f"the best network read {highest:.1%} of the digits; now its weights are back, it seems")


if __name__ == "__main__":
    main()
