"""A batch is augmented in place after `dict(batch)`, which copies no tensor of it."""

import copy

import torch
from torch import nn


def augment(batch):
    batch = copy.copy(batch)  # TC109: taken
    batch["image"].mul_(torch.bernoulli(torch.full_like(batch["image"], 0.5)))  # TC109: overwritten
    return batch


torch.manual_seed(0)
batch = {"image": torch.rand(8, 10), "label": torch.randint(2, (8,))}
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    augmented = augment(batch)
    views = model(batch["image"]), model(augmented["image"])  # TC109: used
    loss = sum(nn.functional.cross_entropy(view, batch["label"]) for view in views)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
