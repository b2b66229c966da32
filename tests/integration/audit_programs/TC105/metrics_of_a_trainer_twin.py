"""A trainer logs its loss and its regulariser in lists of numbers."""

from collections import defaultdict

import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        self.log = defaultdict(list)

    def step(self, x):
        loss = self.model(x).square().mean()
        penalty = self.model.weight.abs().sum()
        self.optimizer.zero_grad()
        (loss + 0.01 * penalty).backward()
        self.optimizer.step()
        self.log["penalty"].append(penalty.item())


torch.manual_seed(0)
trainer = Trainer(nn.Linear(8, 8))
for _ in range(40):
    trainer.step(torch.randn(16, 8))
print(len(trainer.log["penalty"]))
