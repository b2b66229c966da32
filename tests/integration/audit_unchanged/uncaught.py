"""An error inside of an operator that nobody catches: the traceback names the program's lines and torch's."""

import torch
from audit_shown import show

torch.manual_seed(0)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(5, 1))

    def forward(self, x):
        return self.inner(x)


def train(model):
    show(first=model.inner[0](torch.ones(2, 3)))
    for _ in range(2):
        model(torch.ones(2, 3)).backward()


train(Model())
