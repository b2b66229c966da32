"""The command line: one thin file a command.

A command parses its options, calls a room, hands the record to a reporter and returns the exit status:
0, or 1 when something was found. What goes wrong is turned into one line and a status here, in one place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

EXIT_OK = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with its status."""
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: list[str]) -> int:
    """Runs the command line on `arguments` and returns the exit status."""
    import typer

    from .._errors import TorchcopyError
    from . import advise, bench, claims, doctor, table  # noqa: F401  # each adds its command to the app
    from ._app import app

    debug = "--debug" in arguments
    try:
        status = app(args=arguments, prog_name="torchcopy", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        status = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has gone; nothing is wrong, and nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except typer.TyperException as error:
        return _complain(error.format_message(), debug)
    except (TorchcopyError, MemoryError) as error:
        return _complain(str(error) or "out of memory: choose smaller sizes", debug)
    if status == EXIT_INTERRUPTED:
        print("torchcopy: interrupted", file=sys.stderr)  # noqa: T201
    return status if isinstance(status, int) else EXIT_OK


def _complain(message: str, debug: bool) -> int:
    if debug:
        raise  # the exception that the caller is handling
    if message:  # empty where typer has printed the help instead
        print(f"torchcopy: error: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201
    return EXIT_USAGE
