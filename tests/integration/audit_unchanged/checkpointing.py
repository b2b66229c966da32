"""Activation checkpointing of both kinds, with random numbers inside that have to come out the same again."""

import torch
from audit_shown import show, show_training
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.manual_seed(0)
calls = []


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Dropout(0.3))

    def forward(self, x):
        calls.append((torch.is_grad_enabled(), x.requires_grad))
        return x + self.inner(x)


model = torch.nn.Sequential(*(Block() for _ in range(4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    x = torch.randn(5, 8, requires_grad=True)
    for use_reentrant in (False, True):
        hidden = x
        for block in model:
            hidden = checkpoint(block, hidden, use_reentrant=use_reentrant)
        hidden = checkpoint_sequential(model, 2, hidden, use_reentrant=use_reentrant)
        optimizer.zero_grad()
        hidden.square().mean().backward()
        optimizer.step()
    show(x=x.grad)
print(len(calls), calls[:12])
show_training(model, optimizer)
