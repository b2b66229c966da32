"""Which snapshot a text means: `runs/h:step=100`, `runs/h:best=val_loss`, `runs/h:-1`."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._errors import InputError
from .history import History
from .retention import best_of
from .snapshot import Snapshot

_LISTED = 12
_HOW = (
    "`-1` for the newest, `7` for number 7, `step=100` for a label, `best=val_loss`, `min=loss` or `max=accuracy`"
)


def load_selected(*texts: str) -> list[Snapshot]:
    """The saved snapshots that texts name: each a directory of its own, or one of a saved history.

    Args:
        texts: the directories; for a history with what to select behind a colon. A history is read once.

    Raises:
        InputError: there is no such directory, or no such snapshot in it.
        CorruptSnapshotError: a file is not as it was saved.
    """
    histories: dict[Path, History] = {}
    found = []
    for text in texts:
        with reading(text):
            found.append(_load(text, histories))
    return found


def _load(text: str, histories: dict[Path, History]) -> Snapshot:
    directory, selector = _split(text)
    if not is_history(directory):
        if selector is not None and directory.is_dir():
            raise InputError(f"{str(directory)!r} is one snapshot: leave out `:{selector}`")
        return Snapshot.load(directory)
    history = histories[directory] = histories.get(directory) or History.load(directory)
    if selector is None:
        raise InputError(
            f"{str(directory)!r} is a history of {len(history)} snapshots: say which, as in {directory}:-1"
        )
    return select(history, selector, str(directory))


@contextlib.contextmanager
def reading(text: str) -> Iterator[None]:
    """Says what could not be read, where the system refuses it.

    Raises:
        InputError: it did.
    """
    try:
        yield
    except OSError as error:
        shown = text if len(text) <= 100 else f"{text[:100]}…"
        raise InputError(f"cannot read {shown!r}: {error.strerror or error}") from error


def is_history(directory: Path) -> bool:
    """Whether a history was saved there, rather than one snapshot."""
    return (directory / "history.json").is_file()


def _split(text: str) -> tuple[Path, str | None]:
    """The directory, and what is behind the colon after it. Colons may be in both."""
    if Path(text).exists():
        return Path(text), None
    colons = [match.start() for match in re.finditer(":", text)]
    for place in reversed(colons):
        if place and Path(text[:place]).exists():
            return Path(text[:place]), text[place + 1 :]
    if colons and colons[-1] > 1:  # not that of `C:\runs`
        return Path(text[: colons[-1]]), text[colons[-1] + 1 :]
    return Path(text), None


def select(history: History, selector: str, where: str) -> Snapshot:
    """The snapshot of a history that a text names.

    Args:
        history: where to look.
        selector: `-1` for the newest, `7` for the one with this number, `step=100` or `step=100,fold=2` for the
            newest with these labels, `best=METRIC` for the best as `keep_best` has it, `min=METRIC`, `max=METRIC`.
        where: how errors call the history.

    Raises:
        InputError: there is no such snapshot; the message lists what there is.
    """
    kept = tuple(history)
    if not kept:
        raise InputError(f"{where!r} has no snapshots")
    if re.fullmatch(r"-?\d{1,18}", selector):
        return _numbered(kept, int(selector), where)
    wanted = [condition.partition("=") for condition in selector.split(",")]
    if not all(equals and name for name, equals, _ in wanted):
        wanted = [selector.partition("=")]
    name, equals, value = wanted[0]
    if not equals or not name:
        raise InputError(f"{selector!r} selects no snapshot of {where!r}: {_HOW}")
    if len(wanted) == 1 and name in ("best", "min", "max") and not any(name in each.labels for each in kept):
        return _best(history, name, value, where)
    for snapshot in reversed(kept):
        if all(n in snapshot.labels and _means(text, snapshot.labels[n]) for n, _, text in wanted):
            return snapshot
    asked = ", ".join(f"{n}={text}" for n, _, text in wanted)
    raise InputError(f"no snapshot of {where!r} has {asked}: {_there_is(kept, [n for n, _, _ in wanted])}")


def _numbered(kept: tuple[Snapshot, ...], number: int, where: str) -> Snapshot:
    if number < 0:
        if -number <= len(kept):
            return kept[number]
        raise InputError(f"{where!r} has {len(kept)} snapshots: there is none at {number}")
    for snapshot in kept:
        if snapshot.number == number:
            return snapshot
    there = _listed([str(each.number) for each in kept])
    raise InputError(f"{where!r} has no snapshot with number {number}: there are {there}")


def _best(history: History, which: str, metric: str, where: str) -> Snapshot:
    goal = history.keep_best.get(metric) if which == "best" else which
    known = sorted({name for each in history for name in each.metrics})
    if metric in known and goal is None:
        raise InputError(f"{where!r} was not told what the best {metric} is: say `min={metric}` or `max={metric}`")
    found = best_of(tuple(history), metric, "max" if goal == "max" else "min")
    if found is None:
        there = f"there are {_listed(list(map(repr, known)))}" if known else "there are no metrics"
        raise InputError(f"no snapshot of {where!r} has a number for {metric!r}: {there}")
    return found


def _means(text: str, value: Any) -> bool:
    """Whether a label has the value that a text stands for."""
    if isinstance(value, (bool, type(None))):
        return text.lower() == str(value).lower()
    if isinstance(value, str):
        return text == value
    try:
        number = int(text) if isinstance(value, int) and re.fullmatch(r"[+-]?\d{1,400}", text) else float(text)
    except ValueError:
        return False
    return bool(number == value) or (math.isnan(number) and math.isnan(value))


def _there_is(kept: tuple[Snapshot, ...], names: list[str]) -> str:
    known = {name for each in kept for name in each.labels}
    unknown = [name for name in names if name not in known]
    if unknown:
        labels = _listed(sorted(known)) if known else "none"
        return f"its labels are {labels}"
    pairs = [", ".join(f"{name}={each.labels.get(name)}" for name in names) for each in kept]
    return f"there are {_listed(list(dict.fromkeys(pairs)))}"


def _listed(names: list[str]) -> str:
    """The names, the middle left out where there are many."""
    if len(names) > _LISTED:
        names = [*names[: _LISTED // 2], "…", *names[-_LISTED // 2 :]]
    return ", ".join(names)
