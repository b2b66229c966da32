"""How a snapshot gets back into the live objects: everything is checked, then everything is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from .._errors import RestoreError
from .parts.part import Load, Part, RestorePlan
from .write_back import write_back


def restore(parts: Sequence[tuple[Part, object]]) -> None:
    """Writes each saved state, which is only read, into its part.

    Raises:
        RestoreError: some do not fit, or an object refused its state. Nothing was changed.
    """
    plans = [part.plan(saved) for part, saved in parts]
    differences = [line for plan in plans for line in plan.differences]
    if differences:
        raise RestoreError(_message(differences))
    loads = [(part, load) for (part, _), plan in zip(parts, plans, strict=True) for load in plan.loads]
    loads.sort(key=lambda load: load[0].kind in ("generator", "rng"))  # last: some draw when they get their state
    _load([load for _, load in loads], plans)
    for plan in plans:
        for action in plan.actions:
            action()
    with torch.no_grad():
        for part, _ in parts:
            for leaf in part.gradients_of():
                leaf.grad = None


def _message(differences: Sequence[str]) -> str:
    if len(differences) == 1:
        return f"nothing was restored: {differences[0]}"
    listed = "".join(f"\n  {line}" for line in differences)
    return f"nothing was restored, as {len(differences)} things do not match:{listed}"


def _load(loads: Sequence[Load], plans: Iterable[RestorePlan]) -> None:
    """Calls what is not ours, and writes the tensors; where one raises, those before it get back what they had."""
    done: list[Load] = []
    path = "tensors"
    try:
        for load in loads:
            path = load.path
            done.append(load)
            load.load()
        path = "tensors"
        write_back([(live, saved) for plan in plans for _, live, saved in plan.pairs])
    except BaseException as error:
        kept = [load.path for load in reversed(done) if not _is_undone(load)]
        if not isinstance(error, Exception):
            raise
        message = f"nothing was restored: {path} refused its state: {type(error).__name__}: {error}"
        if kept:
            message += f"; {', '.join(kept)} refused also what it had before, and may have changed"
        raise RestoreError(message) from error


def _is_undone(load: Load) -> bool:
    try:
        load.undo()
    except Exception:  # noqa: BLE001  # somebody else's code; the others are to get back what they had
        return False
    return True
