"""A backup by `copy.copy` is loaded back: it shares each tensor."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.BatchNorm1d(4)
backup = copy.copy(model)  # TC109: taken?
for _ in range(3):
    model(torch.randn(16, 4) * 3)  # TC107: written?  # TC101: overwritten?  # TC109: overwritten?
model.load_state_dict(backup.state_dict())  # TC107: restored  # TC109: used?
print(model.running_var)
