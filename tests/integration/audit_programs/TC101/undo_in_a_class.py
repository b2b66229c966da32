"""A class that tries a perturbation and takes it back: the dict is new, its tensors are the model's."""

import torch
from torch import nn


class Search:
    def __init__(self, model):
        self.model = model

    def attempt(self, x, scale):
        backup = dict(self.model.state_dict())  # TC101: taken
        with torch.no_grad():
            before = self.model(x).square().mean().item()
            for p in self.model.parameters():
                p.add_(torch.randn_like(p), alpha=scale)  # TC101: overwritten
            if self.model(x).square().mean().item() > before:
                self.model.load_state_dict(backup)  # TC101: used  # TC107: restored?


torch.manual_seed(0)
search = Search(nn.Linear(5, 2))
for _ in range(10):
    search.attempt(torch.randn(16, 5), 0.5)
