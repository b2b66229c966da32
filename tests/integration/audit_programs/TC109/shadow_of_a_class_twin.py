"""A moving average of weights that begins with clones, is swapped in to evaluate, and out again, each epoch."""

import torch
from torch import nn


class MovingAverage:
    def __init__(self, model, decay):
        self.model, self.decay = model, decay
        self.shadow, self.backup = {}, {}

    def register(self):
        for name, p in self.model.named_parameters():
            if p.requires_grad:
                self.shadow[name] = p.data.clone()

    def update(self):
        for name, p in self.model.named_parameters():
            self.shadow[name].mul_(self.decay).add_(p.data, alpha=1 - self.decay)

    def swap_in(self):
        for name, p in self.model.named_parameters():
            self.backup[name] = p.data
            p.data = self.shadow[name]

    def swap_out(self):
        for name, p in self.model.named_parameters():
            p.data = self.backup[name]


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
average = MovingAverage(model, 0.9)
average.register()
for _epoch in range(3):
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(16, 4)).square().mean().backward()
        optimizer.step()
        average.update()
    average.swap_in()
    print(model(torch.ones(1, 4)).item())
    average.swap_out()
