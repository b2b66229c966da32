"""A run that draws on every source of random numbers, and all of its state in plain values."""

import contextlib
import random

import numpy as np
import torch
from torch import nn

from bitwise import bits

FEATURES, CLASSES, BATCH = 6, 3, 8
MODES = ("eager", "lazy", "background")


def seed_everything(number=0):
    torch.manual_seed(number)
    np.random.seed(number)
    random.seed(number)


def everyday_model():
    """A layer with statistics and one with random numbers."""
    return nn.Sequential(
        nn.Linear(FEATURES, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.3), nn.Linear(12, CLASSES)
    )


class Run:
    """A model in training. What belongs to it is in `parts`, as `History` wants it."""

    def __init__(self, model, make_optimizer, make_scheduler=None, scaler=None, autocast=None):
        self.model = model
        self.optimizer = make_optimizer(model.parameters())
        self.scheduler = make_scheduler(self.optimizer) if make_scheduler else None
        self.scaler = scaler
        self.generator = torch.Generator().manual_seed(7)
        self._autocast = autocast
        named = {
            "model": self.model,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
            "generator": self.generator,
        }
        self.parts = {name: part for name, part in named.items() if part is not None}

    def train(self, steps):
        """Trains on; the losses."""
        return [self._step() for _ in range(steps)]

    def _step(self):
        x = torch.randn(BATCH, FEATURES, generator=self.generator)
        x = x + torch.from_numpy(np.random.normal(0, 0.1, (BATCH, 1))).float() * random.random()
        target = torch.randint(CLASSES, (BATCH,))

        def closure():
            self.optimizer.zero_grad()
            with self._autocast() if self._autocast else contextlib.nullcontext():
                loss = nn.functional.cross_entropy(self.model(x).float(), target)
            (self.scaler.scale(loss) if self.scaler else loss).backward()
            return loss

        if isinstance(self.optimizer, torch.optim.LBFGS):
            loss = self.optimizer.step(closure)
        else:
            loss = closure()
            if self.scaler:
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                self.optimizer.step()
        value = loss.item()
        if isinstance(self.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            self.scheduler.step(value)
        elif self.scheduler:
            self.scheduler.step()
        return value

    def bits(self):
        """All that the run goes on from."""
        state = {
            "parameters": dict(self.model.named_parameters()),
            "buffers": dict(self.model.named_buffers()),
            "state_dict": dict(self.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "torch": torch.get_rng_state(),
            "numpy": np.random.get_state(),
            "python": random.getstate(),
        }
        if self.scheduler:
            state["scheduler"] = self.scheduler.state_dict()
        if self.scaler:
            state["scaler"] = self.scaler.state_dict()
        return bits(state)
