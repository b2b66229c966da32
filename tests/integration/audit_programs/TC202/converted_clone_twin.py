"""Weights are converted to double, which copies them, for an export."""

import torch
from torch import nn


def export(model):
    return {name: p.detach().double() for name, p in model.named_parameters()}


torch.manual_seed(0)
model = nn.Linear(200, 100)
exported = export(model)
with torch.no_grad():
    for p in model.parameters():
        p.zero_()
print(sum(float(value.abs().sum()) for value in exported.values()))
