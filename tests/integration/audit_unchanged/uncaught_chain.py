"""Exceptions that lead to each other, in a group, raised in operators of torch and in backward."""

import torch


def fails():
    a = torch.ones(2, requires_grad=True)
    b = a.exp()
    with torch.no_grad():
        b.add_(1)
    b.sum().backward()


def chain():
    try:
        torch.ones(2).view(3)
    except RuntimeError as error:
        try:
            torch.ones(2) @ torch.ones(3)
        except RuntimeError:
            raise ValueError("no shape fits") from error


failures = []
for attempt in (fails, chain, lambda: torch.tensor([1.0]).to("no device")):
    try:
        attempt()
    except (RuntimeError, ValueError) as error:
        failures.append(error)
raise ExceptionGroup("several", failures)
