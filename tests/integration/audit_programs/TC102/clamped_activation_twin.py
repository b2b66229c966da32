"""Activations are clamped into a tensor of their own."""

import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(6, 6), nn.Linear(6, 1)

    def forward(self, x):
        gate = torch.sigmoid(self.inner(x))
        gate = gate.clamp(0.4, 0.6)
        return self.outer(gate)


torch.manual_seed(0)
model = Gate()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 6)).square().mean()
    loss.backward()
    optimizer.step()
