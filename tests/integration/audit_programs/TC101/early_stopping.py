"""A class that stops training early and hands out the best weights: `copy.copy` copies the dict alone."""

import copy
import io

import torch
from torch import nn


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.waited, self.lowest, self.best = patience, 0, float("inf"), None

    def stops(self, loss, model):
        if loss < self.lowest:
            self.lowest, self.waited = loss, 0
            self.best = copy.copy(model.state_dict())  # TC101: taken
        else:
            self.waited += 1
        return self.waited >= self.patience


torch.manual_seed(0)
x, labels = torch.randn(128, 8), torch.randint(3, (128,))
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
stopping = EarlyStopping(3)
for _epoch in range(20):
    loss = nn.functional.cross_entropy(model(x), labels)
    if stopping.stops(float(loss), model):
        break
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # TC101: overwritten
torch.save(stopping.best, io.BytesIO())  # TC101: used
