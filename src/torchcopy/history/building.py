"""Fresh objects with the state of a snapshot."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from .._errors import InputError
from .parts.part import DESCRIBED, Kind
from .parts.random_numbers import SharedRandomPart
from .parts.recognising import part_for
from .restoring import restore


def build(factories: Mapping[str, Callable[..., Any]], saved: Mapping[str, tuple[Kind, object]]) -> Any:
    """The object that each factory makes, with the saved state in it; alone where it is the only one.

    Raises:
        InputError: a factory cannot be called, needs what is not built, or made another kind of object.
        RestoreError: what it made does not fit the state.
    """
    if not factories:
        raise InputError("say what to build, as in build(model=Net)")
    random_numbers = SharedRandomPart("rng", None)
    before = random_numbers.state()
    try:
        built = _made_by(factories)
        parts = []
        for name, target in built.items():
            part = part_for(name, target)
            kind, state = saved[name]
            if part.kind != kind:
                made = type(target).__name__
                raise InputError(f"`{name}` was taken from {DESCRIBED[kind]}; its factory made a {made}")
            parts.append((part, state))
        restore(parts)
    finally:  # the run draws what it would have drawn
        for load in random_numbers.plan(before).loads:
            load.load()
    return next(iter(built.values())) if len(built) == 1 else built


def _made_by(factories: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """What each factory makes, those first that others want to be given."""
    built: dict[str, Any] = {}
    waiting = dict(factories)
    while waiting:
        for name, factory in waiting.items():
            needs = _needs(name, factory, factories)
            if needs <= built.keys():
                break
        else:
            raise InputError(f"the factories of {', '.join(waiting)} wait for each other")
        del waiting[name]
        built[name] = factory(**{need: built[need] for need in needs})
    return built


def _needs(name: str, factory: Callable[..., Any], names: Mapping[str, object]) -> set[str]:
    """The other parts that the factory wants to be given."""
    if not callable(factory) or isinstance(factory, nn.Module):
        raise InputError(f"`{name}` must be what makes such an object, a class or a function; got {factory!r}")
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return set()
    needed = {
        p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }
    missing = sorted(needed - (names.keys() - {name}))
    if missing:
        raise InputError(
            f"the factory of `{name}` needs `{missing[0]}`, which is none of the other parts to build: "
            f"{name}=lambda: … calls it with all that it needs"
        )
    return needed
