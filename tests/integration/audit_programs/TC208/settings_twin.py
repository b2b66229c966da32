"""What is deep-copied in the loop are settings, which hold no tensor."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
settings = {"lr": 0.1, "layers": [4, 8, 1], "betas": (0.9, 0.99)}
model = nn.Linear(4, 1)
history = []
for step in range(50):
    history.append(copy.deepcopy(settings) | {"step": step})
    model(torch.randn(8, 4)).square().mean().backward()
    with torch.no_grad():
        for p in model.parameters():
            p.sub_(p.grad, alpha=settings["lr"])
            p.grad.zero_()
print(len(history))
