"""Weights are clipped in place, under no_grad, between forward and backward."""

import torch
from torch import nn


def train(model, optimizer, steps):
    for _ in range(steps):
        loss = model(torch.randn(8, 4)).square().mean()  # TC103: saved
        optimizer.zero_grad()
        with torch.no_grad():
            model[2].weight.clamp_(-0.1, 0.1)  # TC103: overwritten
        loss.backward()  # TC103: backward
        optimizer.step()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 6), nn.Softplus(), nn.Linear(6, 1))
train(model, torch.optim.Adagrad(model.parameters()), 3)
