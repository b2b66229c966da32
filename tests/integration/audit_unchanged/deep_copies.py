"""`copy.deepcopy` and `copy.copy` of models, optimizers, views and results."""

import copy

import torch
from audit_shown import show, show_training

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3))
model[2].weight = model[0].weight
optimizer = torch.optim.Adam(model.parameters())
x = torch.randn(5, 3)
model(x).sum().backward()
optimizer.step()
copied, its = copy.deepcopy((model, optimizer))
for p in copied.parameters():
    p.grad = torch.ones_like(p)
its.step()
model.zero_grad()
show_training(model, optimizer)
show_training(copied, its)
base = torch.arange(12.0)
views = copy.deepcopy([base, base[2:5], base.view(3, 4)])
views[0].zero_()
shallow = copy.copy(base)
shallow[0] = 5
print(views, base, copy.copy(model)[0] is model[0], copied[2].weight is copied[0].weight)
try:
    copy.deepcopy(model(x))
except RuntimeError as error:
    print(error)
show(parameter=copy.deepcopy(torch.nn.Parameter(x)), views=views)
