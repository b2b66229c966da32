"""Rounds activations to 0 and 1 through `.data`, after sigmoid has saved them: the layer below never learns."""

import torch
from digits_data import accuracy, load, train
from torch import Tensor, nn


class Binary(nn.Module):
    """A network of one hidden layer, whose units are on or off."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(64, 16), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        """A score for each digit."""
        units = torch.sigmoid(self.hidden(x))
        units.data.round_()  # the gradient of sigmoid is out * (1 - out): 0 for each of these
        return self.out(units)


training, _, test = load()
model = Binary()
before = model.hidden.weight.detach().clone()
train(model, training, epochs=20)
moved = torch.dist(model.hidden.weight.detach(), before).item()
print(f"the hidden layer's weights moved by {moved:.3f}")
print(f"accuracy: {accuracy(model, test):.1%}")
