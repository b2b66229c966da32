"""A backup by `copy.deepcopy` is loaded back."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.BatchNorm1d(4)
backup = copy.deepcopy(model)
for _ in range(3):
    model(torch.randn(16, 4) * 3)
model.load_state_dict(backup.state_dict())
print(model.running_var)
