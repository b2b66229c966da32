"""Runs each measurement of the copying benchmark in a process of its own.

No method then finds memory that another one left behind: freed blocks, raised thresholds of the C library, pages
that were asked to be huge. All processes are forked from one that has imported PyTorch and computed nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchcopy._errors import InputError, TorchcopyError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

PATIENCE_SECONDS = 300

_context: Any
if "forkserver" in multiprocessing.get_all_start_methods():
    _context = multiprocessing.get_context("forkserver")
    _context.set_forkserver_preload(["copying"])
    # The server takes over neither `sys.path` nor the main module: https://github.com/python/cpython/issues/126631
    _here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_here, os.environ.get("PYTHONPATH"))))
else:
    _context = multiprocessing.get_context("spawn")


def run(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What `function(*arguments)` returns in a new process, or `{"error": …}`."""
    receiver, sender = _context.Pipe(duplex=False)
    process = _context.Process(target=_answer, args=(sender, function, arguments), daemon=True)
    process.start()
    sender.close()
    try:
        if not receiver.poll(PATIENCE_SECONDS):
            process.kill()
            return {"error": f"it took more than {PATIENCE_SECONDS} s"}
        answer: dict[str, Any] = receiver.recv()
    except EOFError:
        process.join()
        return {"error": f"its process ended with status {process.exitcode}"}
    else:
        return answer
    finally:
        process.join()
        receiver.close()


def _answer(sender: Connection, function: Callable[..., dict[str, Any]], arguments: Sequence[Any]) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = function(*arguments)
    except InputError as error:
        answer = {"error": str(error)}
    except Exception as error:  # noqa: BLE001  # what a method raises is one of the answers
        kind = "" if isinstance(error, TorchcopyError) else f"{type(error).__name__}: "
        answer = {"error": kind + (str(error).splitlines() or [""])[0]}
    sender.send(answer)
    sender.close()
    os._exit(0)  # gigabytes need not be given back one by one
