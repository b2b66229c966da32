"""`torchcopy lint`: checks source code for copies that are missing or wasted, and mends it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ._app import app
from ._options import Debug, split_commas

if TYPE_CHECKING:
    from ..linting.records import LintReport

_FORMATS = ("text", "json", "github", "sarif")
_CODES = "Codes or beginnings of codes, such as `TC101` or `TC2`; repeat, or use commas."


@app.command()
def lint(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Files, `.py` or `.ipynb`, and folders. Default: the working directory.",
            show_default=False,
        ),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option("--select", metavar="CODES", help=f"Look for these only. {_CODES} Default: all but TC3."),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="CODES", help=f"Do not look for these. {_CODES}")
    ] = None,
    force_exclude: Annotated[
        bool,
        typer.Option("--force-exclude", help="Leave out what is excluded even if it is named, as hooks do."),
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Write the fixes that do not change what the program computes.")
    ] = False,
    unsafe_fixes: Annotated[
        bool,
        typer.Option(
            "--unsafe-fixes", help="With `--fix` or `--diff`: the others too; it is told what may change."
        ),
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show what `--fix` would change, and write nothing.")
    ] = False,
    output_format: Annotated[
        str,
        typer.Option("--output-format", metavar="FORMAT", help="`text`, `json`, `github` or `sarif`, on stdout."),
    ] = "text",
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Check every file anew, and remember nothing.")
    ] = False,
    statistics: Annotated[
        bool, typer.Option("--statistics", help="Only count how often each code was found.")
    ] = False,
    debug: Debug = False,
) -> int:
    """Finds copies that are missing in source code, and copies that are wasted, without running it.

    The exit status is 1 if something was found (with `--diff`: if something would change), 2 if the command could
    not be carried out.

    Settings are read from `[tool.torchcopy.lint]` in `pyproject.toml`.

    Example: `torchcopy lint src train.py --select TC1`

    Example: `torchcopy lint --diff`
    """
    del debug  # read where errors are handled
    from .._errors import InputError
    from ..linting.fix_options import FixOptions
    from ..linting.running import lint as run

    if output_format not in _FORMATS:
        raise InputError(f"`--output-format {output_format}`: there are {', '.join(_FORMATS)}")
    if unsafe_fixes and not (fix or diff):
        raise InputError("`--unsafe-fixes` says which fixes: add `--fix` to write them or `--diff` to see them")
    if statistics and (diff or output_format in ("github", "sarif")):
        other = "--diff" if diff else f"--output-format {output_format}"
        raise InputError(f"`--statistics` and `{other}` exclude each other: choose one")
    if diff and output_format != "text":
        raise InputError(f"`--diff` and `--output-format {output_format}` exclude each other: choose one")
    report = run(
        paths if paths else ["."],
        select=split_commas(select),
        ignore=split_commas(ignore),
        fix_options=FixOptions("shown" if diff else "written" if fix else "none", unsafe_fixes),
        cache=not no_cache,
        force_exclude=force_exclude,
    )
    if diff:
        _show_diff(report)
    elif output_format == "text":
        from ..reporters import lint as text

        (text.show_statistics if statistics else text.show)(report)
    else:
        _write(report, output_format, statistics)
    if any(skipped.is_error for skipped in report.skipped):
        return 2
    return 1 if (report.fixed if diff else report.findings) else 0


def _show_diff(report: LintReport) -> None:
    from ..reporters import lint as text
    from ..reporters.lint_diff import as_diff, folder_of

    folder = folder_of(report.fixed)
    sys.stdout.write(as_diff(report.fixed, folder))
    where = [f"The diff is one of files in {folder}: apply it there."] if folder else []
    _tell(*where, *text.remarks(report), *text.summary(report, is_written=False))


def _write(report: LintReport, output_format: str, statistics: bool) -> None:
    """Writes the report for programs to stdout, and how much was read to stderr."""
    from ..reporters import lint as text
    from ..reporters.as_json import print_json
    from ..reporters.diagnostics import of_lint

    if output_format == "json" and statistics:
        rows = text.statistics(report)
        print_json([{"code": code, "count": count, "fixable": fixable} for code, count, fixable in rows])
    elif output_format == "json":
        print_json([finding.to_dict() for finding in report.findings])
    elif output_format == "github":
        from ..reporters.github_annotations import as_github_annotations

        sys.stdout.write(as_github_annotations(of_lint(report)))
    else:
        from ..reporters.sarif import as_sarif

        print_json(as_sarif(of_lint(report)))
    _tell(*text.remarks(report), *text.summary(report))


def _tell(*lines: str) -> None:
    for line in lines:
        print(line, file=sys.stderr)  # noqa: T201
