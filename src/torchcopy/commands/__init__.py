"""The command line: one thin file a command.

A command parses its options, calls a room, hands the record to a reporter and returns the exit status:
0, or 1 when something was found. What goes wrong is turned into one line and a status here, in one place.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with its status."""
    try:
        status = run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt as interrupted:
        from ..auditing.running import ProgramInterrupted  # only now: it takes as long to load as a file to check

        if isinstance(interrupted, ProgramInterrupted):
            interrupted.leave()
        status = _interrupted()
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Runs the command line on `arguments` and returns the exit status.

    What a command returns to be called, which is a program of the user's, is called when the rest is done.
    """
    if sys.stdout is None and arguments[:1] != ["audit"]:
        return _complain("stdout is closed: there is nowhere to write to", debug=False)
    hook = sys.excepthook
    with _readable_stdout():
        status = _run_command(arguments)
    sys.excepthook = hook  # typer has set its own
    return status() if callable(status) else status


@contextlib.contextmanager
def _readable_stdout() -> Iterator[None]:
    """Lets a terminal without `×` show `?`."""
    if not isinstance(sys.stdout, io.TextIOWrapper):
        yield
        return
    stdout, errors = sys.stdout, sys.stdout.errors
    stdout.reconfigure(errors="replace")
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            stdout.reconfigure(errors=errors)


def _run_command(arguments: list[str]) -> int | Callable[[], int]:
    debug = "--debug" in arguments
    import typer

    from .._errors import TorchcopyError
    from . import advise, audit, bench, claims, doctor, explain, history, lint, table  # noqa: F401  # each adds a command
    from ._app import app

    try:
        status = app(args=arguments, prog_name="torchcopy", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except BrokenPipeError:
        _discard_output()  # the reader (`| head`) has gone; nothing is wrong, and nobody is left to tell
        return EXIT_OK
    except typer.TyperException as error:
        return _complain(error.format_message(), debug)
    except (TorchcopyError, MemoryError) as error:
        return _complain(str(error) or "out of memory: choose smaller sizes", debug)
    except OSError as error:
        _discard_output()
        return _complain(f"cannot write the output: {error.strerror or error}", debug)
    except Exception as error:  # noqa: BLE001  # a mistake of ours, or an exception of the user's code
        message = f"{type(error).__name__}: {error} (--debug shows where)"
        return _complain(message, debug)
    if status == EXIT_INTERRUPTED:  # typer has caught Ctrl-C by itself
        return _interrupted()
    return status if isinstance(status, int) or callable(status) else EXIT_OK


def _interrupted() -> int:
    print("torchcopy: interrupted", file=sys.stderr)  # noqa: T201
    return EXIT_INTERRUPTED


def _discard_output() -> None:
    """Lets what is left in stdout's buffer go nowhere, so that the interpreter's exit does not stumble over it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, debug: bool) -> int:
    if debug:
        raise  # the exception that the caller is handling
    if message:  # empty where typer has printed the help instead
        print(f"torchcopy: error: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201
    return EXIT_USAGE
