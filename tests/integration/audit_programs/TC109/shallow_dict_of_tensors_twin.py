"""A batch is augmented out of place after `dict(batch)`."""

import copy

import torch
from torch import nn


def augment(batch):
    batch = copy.copy(batch)
    batch["image"] = batch["image"] * torch.bernoulli(torch.full_like(batch["image"], 0.5))
    return batch


torch.manual_seed(0)
batch = {"image": torch.rand(8, 10), "label": torch.randint(2, (8,))}
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    augmented = augment(batch)
    views = model(batch["image"]), model(augmented["image"])
    loss = sum(nn.functional.cross_entropy(view, batch["label"]) for view in views)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
