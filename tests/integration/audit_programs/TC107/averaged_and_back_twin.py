"""Averaged weights are put in for an evaluation, and clones put back afterwards."""

import torch
from torch import nn


class Averaged:
    def __init__(self, model):
        self.model = model
        self.mean = {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self):
        for name, p in self.model.named_parameters():
            self.mean[name].lerp_(p.detach(), 0.1)

    def evaluate(self, x):
        backup = {name: p.clone() for name, p in self.model.named_parameters()}
        self.model.load_state_dict(self.mean)
        with torch.no_grad():
            score = self.model(x).square().mean()
        self.model.load_state_dict(backup)
        return score


torch.manual_seed(0)
averaged = Averaged(nn.Linear(4, 2))
optimizer = torch.optim.SGD(averaged.model.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    averaged.model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    averaged.update()
print(averaged.evaluate(torch.randn(8, 4)).item())
