"""Audits blocks that end in every way, and says of each whether all is as it was before it."""

import types

import torch
from audit_shown import left_behind, patchable

import torchcopy as tc

ENDINGS = [None, ValueError("fails"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()]


def contents():
    """Every value of every namespace that could be patched, by identity, but modules that were imported since."""
    return {
        (namespace.__name__, name): value
        for namespace in patchable()
        for name, value in vars(namespace).items()
        if not isinstance(value, types.ModuleType) and not name.startswith("__warningregistry")
    }


def changed(before, after):
    """The names whose values are not the very same objects."""
    return sorted(key for key in before if after.get(key) is not before[key])


def train(ending):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(2, 3)).sum().backward()
        optimizer.step()
    kept = {name: t.clone() for name, t in model.state_dict().items()}
    if ending is not None:
        raise ending
    return kept


train(None)
with tc.audit():
    train(None)  # whatever is imported at first use is there from now on
for ending in ENDINGS:
    for options in ({}, {"first_steps": 2}):
        before, there = left_behind(), contents()
        audit = tc.audit(**options)
        try:
            with audit:
                train(ending)
        except BaseException as error:
            if error is not ending:
                raise
        after = left_behind()
        print(type(ending).__name__, after == before, changed(there, contents()), audit.report.steps)
