"""Meta-learning: inner steps on weights that are tensors in a graph; and one with copies of the model (Reptile)."""

import copy

import torch
from audit_shown import show_training
from torch.func import functional_call

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(6):
    total = 0
    for _ in range(3):
        phase = torch.rand(()) * 3
        x = torch.rand(10, 1) * 6
        y = (x + phase).sin()
        weights = dict(model.named_parameters())
        for _ in range(2):
            loss = (functional_call(model, weights, (x,)) - y).square().mean()
            grads = torch.autograd.grad(loss, weights.values(), create_graph=True)
            weights = {name: w - 0.1 * g for (name, w), g in zip(weights.items(), grads, strict=True)}
        total = total + (functional_call(model, weights, (x,)) - y).square().mean()
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    print(total.item())
for _ in range(4):
    before = copy.deepcopy(model.state_dict())
    inner = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(3):
        x = torch.rand(10, 1) * 6
        inner.zero_grad()
        (model(x) - x.sin()).square().mean().backward()
        inner.step()
    after = model.state_dict()
    model.load_state_dict({name: t + 0.5 * (after[name] - t) for name, t in before.items()})
show_training(model, optimizer)
