"""Runs a program as `python` itself would, with something around it.

The program finds its own `sys.argv`, `sys.path[0]` and `__main__`; an exception that it does not catch is shown as
the interpreter shows it, and it ends with the status that the interpreter would end with. What Python does itself
for `-m` and for folders is done by the same function of `runpy`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.machinery
import importlib.util
import os
import pkgutil
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import CodeType, ModuleType, TracebackType
from typing import Any, Literal, NoReturn

from .._errors import InputError
from .watching.tracebacks import strip_frames

INTERRUPTED = 128 + signal.SIGINT


@dataclasses.dataclass(frozen=True)
class Program:
    """A program that was found and read; nothing of it has run.

    Attributes:
        kind: a file, a module by its name, or a folder or an archive with a `__main__.py`.
        name: of the file, the module or the folder, as it was given.
        arguments: what follows it.
        code: of a file.
    """

    kind: Literal["script", "module", "container"]
    name: str
    arguments: tuple[str, ...] = ()
    code: CodeType | None = None

    def __str__(self) -> str:
        return " ".join((*(["-m"] if self.kind == "module" else []), self.name, *self.arguments))

    def run(self, around: AbstractContextManager[Any]) -> Ending:
        """Runs the program, as `__main__` of this process, inside of `around`.

        `around` is left when the program's threads have ended, which is after its last line and before its exit
        handlers; an exception that ended the program is handed to it.
        """
        process = os.getpid()
        self._become_main()
        error: BaseException | None = None
        around.__enter__()
        try:
            error = self._execute()
            status = 0 if error is None else _tell(error)
            if (
                "torch" in sys.modules
            ):  # else there was nothing to audit, and torch cannot be imported any more then
                _wait_for_threads()
        finally:
            if error is None:
                around.__exit__(None, None, None)
            else:
                around.__exit__(type(error), error, error.__traceback__)
        interrupted = type(error) is KeyboardInterrupt
        return Ending(status, interrupted=interrupted, in_child=os.getpid() != process)

    def _become_main(self) -> None:
        """Sets what a program can see of how it was started."""
        option = ["-m"] if self.kind == "module" else []
        sys.orig_argv = [*_interpreter(), *option, self.name, *self.arguments]
        sys.argv = ["-m" if option else self.name, *self.arguments]
        _set_first_path(self.kind, self.name)
        main = ModuleType("__main__")
        vars(main).update(__annotations__={}, __builtins__=sys.modules["builtins"])
        if self.kind == "script":
            path = _absolute(self.name)
            compiled = path.endswith(".pyc")
            loader = importlib.machinery.SourcelessFileLoader if compiled else importlib.machinery.SourceFileLoader
            vars(main).update(__file__=path, __cached__=None, __loader__=loader("__main__", path))
        sys.modules["__main__"] = main

    def _execute(self) -> BaseException | None:
        """Runs the code to its end; the exception that ended it, if one did."""
        try:
            if self.code is not None:
                try:
                    exec(self.code, vars(sys.modules["__main__"]))
                finally:
                    _flush()
            else:
                import runpy

                run_main: Any = runpy._run_module_as_main  # type: ignore[attr-defined]  # what `python -m` calls
                run_main(self.name if self.kind == "module" else "__main__", self.kind == "module")
        except BaseException as error:  # noqa: BLE001  # whatever ends a program
            error.__traceback__ = _below_here(error.__traceback__)
            return error
        return None


@dataclasses.dataclass(frozen=True)
class Ending:
    """How a program ended.

    Attributes:
        status: what the process is to exit with.
        interrupted: Ctrl-C ended it, and `python` would end by the signal.
        in_child: this is a process that the program has forked, not the one that was started.
    """

    status: int
    interrupted: bool = False
    in_child: bool = False


class ProgramInterrupted(KeyboardInterrupt):
    """A program was ended by Ctrl-C, and has said so."""

    def leave(self) -> NoReturn:
        """Ends the process as `python` ends one that was interrupted: by the signal, once all is cleared away."""
        hook = sys.excepthook

        def say_nothing(*_: object) -> None:
            sys.excepthook = hook  # for the handlers at exit to find

        sys.excepthook = say_nothing
        raise KeyboardInterrupt from None


def find_program(arguments: Sequence[str], *, is_module: bool) -> Program:
    """The program that `python [-m] ARGUMENTS` would run. Runs and imports nothing.

    Raises:
        InputError: there is none, or it is not Python.
    """
    if not arguments:
        raise InputError("nothing to run: name a script, or a module with `-m`")
    name, *rest = arguments
    if is_module:
        _check_module(name)
        return Program("module", name, tuple(rest))
    if not os.path.exists(name):  # noqa: PTH110  # as it was given, which Path would change
        raise InputError(f"there is no file {name!r}")
    importer: Any = pkgutil.get_importer(name)
    if importer is not None:
        if importer.find_spec("__main__") is None:
            raise InputError(f"{name!r} has no `__main__.py`: name the script that is to run")
        return Program("container", name, tuple(rest))
    return Program("script", name, tuple(rest), _read_code(name))


def _read_code(name: str) -> CodeType:
    path = _absolute(name)
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            code: CodeType | None = pkgutil.read_code(file) if name.endswith(".pyc") else None
            file.seek(0)
            source = file.read()
    except (OSError, ValueError, EOFError, TypeError) as error:
        raise InputError(f"cannot read {name!r}: {getattr(error, 'strerror', None) or error}") from error
    if code is not None:
        return code
    try:
        compiled: CodeType = compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise InputError(f"{name!r} is not Python{line}: {reason}") from error
    return compiled


def _check_module(name: str) -> None:
    """Refuses what can be seen to be no module without importing anything."""
    if not all(name.split(".")):
        raise InputError(f"`-m {name}` names no module: write `-m package.module`")
    top = name.partition(".")[0]
    before = list(sys.path)
    _set_first_path("module", name)
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # it is there, and made of something that has no spec
        return
    finally:
        sys.path[:] = before
    if spec is None:
        hint = f": did you mean `{name}` without `-m`?" if name.endswith(".py") else ""
        raise InputError(f"there is no module {top!r}{hint}")
    inside = spec.submodule_search_locations
    if top == name and inside is not None:
        if importlib.machinery.PathFinder.find_spec(f"{name}.__main__", list(inside)) is None:
            raise InputError(f"{name!r} is a package without a `__main__.py`: name a module in it")
    elif top != name and inside is None:
        raise InputError(f"there is no module {name!r}: {top!r} is not a package")


def _absolute(name: str) -> str:
    """As Python does it for a script: `./a.py` becomes `/where/./a.py`."""
    return os.path.join(os.getcwd(), name)  # noqa: PTH118, PTH109


def _set_first_path(kind: str, name: str) -> None:
    """Puts in front of `sys.path` what Python puts there, in the place of what was put there for us."""
    ours = [] if sys.flags.safe_path else sys.path[:1]
    first = {
        "script": os.path.dirname(os.path.realpath(name)),  # noqa: PTH120
        "module": os.getcwd(),  # noqa: PTH109
        "container": _absolute(name),
    }[kind]
    if kind == "container" or not sys.flags.safe_path:
        sys.path[: len(ours)] = [first]


def _interpreter() -> list[str]:
    """Python and its own options, as this process was started with them."""
    started = sys.orig_argv[: max(1, len(sys.orig_argv) - len(sys.argv))]
    return started[:-1] if len(started) > 1 and started[-1] == "-m" else started


def _below_here(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback


def _flush() -> None:
    for stream in (sys.stderr, sys.stdout):
        with contextlib.suppress(Exception):
            stream.flush()


def _wait_for_threads() -> None:
    """Waits as the interpreter does at its end, executors included; what it does then a second time is nothing."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
    except BaseException as error:  # noqa: BLE001  # Ctrl-C: Python tells it and goes on to its end
        print(f"Exception ignored in: {threading!r}", file=sys.stderr)  # noqa: T201
        sys.__excepthook__(type(error), error, _below_here(error.__traceback__))
    _flush()


def _tell(error: BaseException) -> int:
    """Shows the exception that has ended a program as the interpreter does; the exit status."""
    if isinstance(error, SystemExit):
        return _status_of(error)
    strip_frames(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    hook = getattr(sys, "excepthook", sys.__excepthook__)
    try:
        hook(type(error), error, error.__traceback__)
    except SystemExit as leaving:
        return _status_of(leaving)
    except BaseException as failure:  # noqa: BLE001
        failure.__traceback__ = _below_here(failure.__traceback__)
        failure.__context__ = None
        print("Error in sys.excepthook:", file=sys.stderr)  # noqa: T201
        sys.__excepthook__(type(failure), failure, failure.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)  # noqa: T201
        sys.__excepthook__(type(error), error, error.__traceback__)
    return INTERRUPTED if type(error) is KeyboardInterrupt else 1


def _status_of(leaving: SystemExit) -> int:
    """The exit status that `sys.exit(code)` stands for; a code that is no number is printed."""
    code = leaving.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(2**63) <= code < 2**63 else 0xFF
    with contextlib.suppress(Exception):
        print(code, file=sys.stderr, flush=True)  # noqa: T201
    return 1
