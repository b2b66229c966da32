"""Ctrl-C in the middle of a training: cleaned up, told, and ended by the signal."""

import atexit
import signal

import torch
from audit_shown import show_training

torch.manual_seed(0)
atexit.register(print, "at exit")
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    try:
        model(torch.ones(3, 2)).sum().backward()
        optimizer.step()
        if step == 5:
            signal.raise_signal(signal.SIGINT)
    finally:
        if step >= 5:
            show_training(model, optimizer)
