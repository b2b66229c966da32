"""`sys.exit(3)` in the middle of a training, inside `with` and `try`."""

import sys

import torch
from audit_shown import show_training

model = torch.nn.Linear(2, 1)
torch.manual_seed(0)
torch.nn.init.normal_(model.weight)
torch.nn.init.zeros_(model.bias)
for step in range(5):
    try:
        with torch.enable_grad():
            model(torch.ones(3, 2)).sum().backward()
            if step == 2:
                show_training(model)
                sys.exit(3)
    finally:
        print("finally", step)
