"""What all terminal reports share: the console, progress, and short words for answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def console() -> Console:
    """A console on stdout; it honours `NO_COLOR` and the width of the terminal."""
    return Console(highlight=False, soft_wrap=False)


def output(text: str) -> None:
    """Writes plain text to stdout as it is, without wrapping."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """A progress bar on stderr, in a terminal only; yields what to call with the name of each next step."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task(title, total=total)
        started = False

        def advance(step: str) -> None:
            nonlocal started
            bar.update(task, description=f"{title} {step}", advance=1 if started else 0)
            started = True

        yield advance


def yes_no(answer: bool | None) -> str:
    """`yes`, `no`, or a dash where there is no answer."""
    return "–" if answer is None else "yes" if answer else "no"
