"""LBFGS with a line search: the closure runs several times a step."""

import torch
from audit_shown import show_training
from clean_tools import blobs

torch.manual_seed(0)
x, y = blobs()
model = torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.Tanh(), torch.nn.Linear(12, 3))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    return loss


for _ in range(6):
    print(optimizer.step(closure).item())
show_training(model, optimizer)
