"""A data set of doubles is converted in each epoch, by a function."""

import torch
from torch import nn

torch.manual_seed(0)
data = torch.randn(512, 64, dtype=torch.float64)


def epoch(model, optimizer):
    inputs = data.to(torch.float32)  # TC205: converted
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()


model = nn.Linear(64, 1)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(40):
    epoch(model, optimizer)
