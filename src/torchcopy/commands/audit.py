"""`torchcopy audit`: runs a program, and tells which copies were missing and which were never needed.

Nothing here imports torch before the program does: what it sets before its own `import torch` has its effect.
"""

from __future__ import annotations

import dataclasses
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._app import app
from ._options import Debug, split_commas

if TYPE_CHECKING:
    from ..auditing.records import Report
    from ..auditing.running import Program

_CODES = "Codes or families of them, such as `TC101` or `TC2`; repeat, or use commas."
_NOTHING = "the program has not imported torch: there was nothing to audit"
_NOTHING_ELSEWHERE = "torch was first imported by another thread than the main one: nothing was audited"
_SUFFIXES = {"--html": (".html",), "--json": (".json",), "--sarif": (".sarif", ".json")}


def _file(option: str, help: str) -> Any:
    return typer.Option(option, metavar="FILE", help=help, show_default=False)


def _codes(option: str, help: str) -> Any:
    return typer.Option(option, metavar="CODES", help=help, show_default=False)


@app.command(context_settings={"allow_interspersed_args": False})
def audit(
    program: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="train.py ARGS…",
            help="The script, or with `-m` the module, and its own arguments: what follows it belongs to it.",
            show_default=False,
        ),
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="Run a module, as `python -m` does.")] = False,
    html: Annotated[Path | None, _file("--html", "Write the report as one self-contained page.")] = None,
    json: Annotated[Path | None, _file("--json", "Write the report as JSON.")] = None,
    sarif: Annotated[Path | None, _file("--sarif", "Write the findings as SARIF, for code scanning.")] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Tell the findings on stderr as annotations of GitHub Actions.")
    ] = False,
    fail_on: Annotated[
        list[str] | None, _codes("--fail-on", f"Exit with 1 if one of these is found. {_CODES}")
    ] = None,
    select: Annotated[
        list[str] | None, _codes("--select", f"Look for these only. {_CODES} Default: all but TC3.")
    ] = None,
    ignore: Annotated[list[str] | None, _codes("--ignore", f"Do not look for these. {_CODES}")] = None,
    first_steps: Annotated[
        int | None,
        typer.Option(
            "--first-steps",
            metavar="N",
            min=1,
            help="Audit N optimizer steps, then let the program run on at full speed. Default: all of it.",
            show_default=False,
        ),
    ] = None,
    debug: Debug = False,
) -> Any:
    """Runs a program and tells which copies were missing in it, and which were never needed, by source line.

    The program runs as `python` runs it; its output and its exit status stay its own. The report goes to stderr.

    Example: `torchcopy audit --html audit.html --fail-on TC1 train.py --epochs 3`

    Example: `torchcopy audit --first-steps 100 -m mypackage.train`
    """
    del debug  # read where errors are handled
    from .._output_files import check_distinct, check_writable
    from ..auditing.running import find_program

    outputs = {"--html": html, "--json": json, "--sarif": sarif}
    for option, path in outputs.items():
        if path is not None:
            _check_suffix(path, option)
            check_writable(path, option)
    check_distinct(outputs)
    selected, ignored = _parse(select, "--select"), _parse(ignore, "--ignore") or ()
    failing = _parse(fail_on, "--fail-on") or ()
    _check_looked_for(split_commas(fail_on) or [], selected, ignored)
    return _AuditedRun(
        program=find_program(program or [], is_module=module),
        options={"select": selected, "ignore": ignored, "first_steps": first_steps},
        fail_on=failing,
        outputs={option: path.absolute() for option, path in outputs.items() if path is not None},
        github=github,
    )


@dataclasses.dataclass(frozen=True)
class _AuditedRun:
    """What is to be run once the command line is out of its way; returns the exit status."""

    program: Program
    options: dict[str, Any]
    fail_on: tuple[str, ...]
    outputs: dict[str, Path]
    github: bool

    def __call__(self) -> int:
        from ..auditing.running import ProgramInterrupted
        from ..auditing.starting import AtTorch

        began = time.perf_counter()
        waiting = AtTorch(self._make_audit)
        ending = self.program.run(waiting)
        if not ending.in_child:  # what it has forked runs on to here too: the report is its parent's
            report = self._report(waiting, time.perf_counter() - began)
            if waiting.entered is None:
                _tell(_NOTHING_ELSEWHERE if waiting.elsewhere else _NOTHING)
            numbers = random.getstate()  # which rich draws from; handlers at exit may do so too
            self._publish(report, in_terminal=waiting.entered is not None)
            random.setstate(numbers)
            if ending.status == 0 and any(each.code.startswith(self.fail_on) for each in report.findings):
                return 1
        if ending.interrupted:
            raise ProgramInterrupted
        return ending.status

    def _make_audit(self) -> Any:
        from ..auditing.session import Audit

        audit = Audit(**self.options)
        audit.is_whole_program = True
        return audit

    def _report(self, waiting: Any, seconds: float) -> Report:
        from ..auditing.records import Report

        if waiting.entered is None:  # it never imported torch
            return Report(findings=(), copies=(), program=str(self.program), seconds=seconds)
        report: Report = waiting.entered.report
        return dataclasses.replace(report, program=str(self.program))

    def _publish(self, report: Report, *, in_terminal: bool) -> None:
        """Writes the report to where it was asked for; what cannot be written is told, and the rest is written."""
        if not (in_terminal or self.outputs):
            return
        from .._errors import InputError
        from ..reporters.as_json import to_json
        from ..reporters.diagnostics import of_audit
        from ..reporters.files import write_text
        from ..reporters.github_annotations import as_github_annotations
        from ..reporters.sarif import as_sarif

        for option, path in self.outputs.items():
            try:
                if option == "--sarif":
                    write_text(path, to_json(as_sarif(of_audit(report))) + "\n")
                else:
                    report.save(path)
            except InputError as error:
                _tell(str(error))
        if self.github:
            sys.stderr.write(as_github_annotations(of_audit(report)))
        if in_terminal:
            from ..reporters.audit import show

            show(report)


def _tell(message: str) -> None:
    print(f"torchcopy: {message}", file=sys.stderr)  # noqa: T201


def _check_suffix(path: Path, option: str) -> None:
    from .._errors import InputError

    endings = _SUFFIXES[option]
    if not str(path).lower().endswith(endings):
        raise InputError(f"`{option} {path}`: the name must end in {' or '.join(endings)}")


def _parse(given: list[str] | None, option: str) -> tuple[str, ...] | None:
    """The codes that are meant.

    Raises:
        InputError: none is, one is unknown, or the linter's alone.
    """
    from .._errors import InputError
    from ..semantics.codes import match_codes

    names = split_commas(given)
    if names is None:
        return None
    if names == [""]:
        raise InputError(f"`{option}` names no code: no code begins with ''; write `{option} TC1`, or leave it out")
    for name in names:
        if not any(code.audited for code in match_codes([name])):
            raise InputError(f"no audit looks for {name}: `torchcopy lint` does")
    return tuple(code.code for code in match_codes(names) if code.audited)


def _check_looked_for(failing: list[str], selected: tuple[str, ...] | None, ignored: tuple[str, ...]) -> None:
    """Refuses to fail on what cannot be found.

    Raises:
        InputError: nothing that one of `failing` stands for is looked for.
    """
    from .._errors import InputError
    from ..semantics.codes import match_codes

    for name in failing:
        meant = [code for code in match_codes([name]) if code.audited]
        reason = ""
        if selected is None and not any(code.on for code in meant):
            reason = f"it is off by default; `--select TC1,TC2,{name}` turns it on"
        elif selected is not None and not any(code.code in selected for code in meant):
            reason = "`--select` leaves it out"
        elif all(code.code in ignored for code in meant):
            reason = "`--ignore` leaves it out"
        if reason:
            raise InputError(f"`--fail-on {name}` would never fail: {reason}")
