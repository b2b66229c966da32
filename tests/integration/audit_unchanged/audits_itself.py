"""A program that uses torchcopy: copies, forks, relations, snapshots; and prints what it found."""

import torch
from audit_shown import show_training

import torchcopy as tc

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
optimizer = torch.optim.AdamW(model.parameters())


def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(6, 3)).square().mean().backward()
        optimizer.step()


train(3)
copied, its = tc.copy((model, optimizer))
forked = tc.fork(model)
print(tc.relate(model[0].weight, forked[0].weight).memory in ("lazy", "own"))
train(2)
tc.lerp_(copied, model, 0.5)
tc.copy_(forked[0], copied[0])
show_training(copied, its)
show_training(forked)
print(tc.relate(model.state_dict(), dict(model.named_parameters())))
show_training(model, optimizer)
