"""`torchcopy bench`: what every way to copy costs here."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ._app import app
from ._options import Debug, Device, Methods, split_commas

if TYPE_CHECKING:
    from ..bench.records import BenchReport


class _BenchCommand(TyperCommand):
    """Lets `--json` stand without a file, for stdout, as in the other commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for index in reversed(range(len(args))):
            follower = args[index + 1] if index + 1 < len(args) else "--"
            if args[index] == "--json" and follower.startswith("--"):
                args.insert(index + 1, "-")
        return super().parse_args(ctx, args)


def _file(option: str, metavar: str, help: str) -> Any:
    return typer.Option(option, metavar=metavar, help=help, show_default=False)


@app.command(cls=_BenchCommand)
def bench(
    method: Methods = None,
    size: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            metavar="SIZE",
            help="Elements: `1000`, `2^20`, `1M`, `2^0..2^14`; repeat, or use commas. Default: 2^0 … 2^26.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            metavar="DTYPE",
            help="`float32`, `bfloat16`, `int64`, … Default: float32; a model as it is.",
            show_default=False,
        ),
    ] = None,
    device: Device = "cpu",
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            metavar="KIND",
            help="no_grad, non_leaf, leaf, parameter, transposed, channels_last, expanded, slice, or `all`. "
            "Default: no_grad.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None, _file("--model", "PACKAGE.MODULE:FACTORY", "Copy the model that this makes, in every way.")
    ] = None,
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", metavar="SECONDS", help="Time to spend; what is left out is named.")
    ] = 60.0,
    plot: Annotated[Path | None, _file("--plot", "FILE", "Draw the result: .png or .svg.")] = None,
    html: Annotated[Path | None, _file("--html", "FILE", "Write the result as one self-contained page.")] = None,
    json: Annotated[str | None, _file("--json", "FILE", "Write the result as JSON; `-` for stdout.")] = None,
    compare: Annotated[
        Path | None, _file("--compare", "OLD.json", "Say what got slower since; exit with 1 if anything did.")
    ] = None,
    debug: Debug = False,
) -> int:
    """What every way to copy costs here: time with its spread, memory, and the distance to the memory's limit.

    The limit is measured in the same run: a warm `copy_` into memory that exists already.

    Example: `torchcopy bench --method clone,deepcopy --size 2^10..2^20 --plot copies.png`

    Example: `torchcopy bench --model mypackage.models:build --max-seconds 30`
    """
    del debug  # read where errors are handled
    from ..bench.compare import compare as compare_reports
    from ..bench.compare import load_report
    from ..bench.preflight import check_outputs
    from ..reporters import bench as report_on
    from ..reporters.as_json import print_json, to_json
    from ..reporters.bench_files import as_data
    from ..reporters.files import write_text

    to_stdout = json == "-"
    json_file = None if json is None or to_stdout else Path(json)
    check_outputs(plot=plot, html=html, json=json_file)
    old = None if compare is None else load_report(compare)
    with contextlib.redirect_stdout(sys.stderr):  # what a factory or a method of the user's prints
        report = _measure(
            {"method": method, "size": size, "dtype": dtype, "device": device, "source": source, "model": model},
            max_seconds=max_seconds,
            against=old,
        )
    comparison = None if old is None else compare_reports(old, report)
    if json_file is not None:
        write_text(json_file, to_json(as_data(report, comparison)) + "\n")
    if plot is not None:
        from ..reporters.bench_plot import write_plot

        write_plot(plot, report)
    if html is not None:
        from ..reporters.bench_html import render

        write_text(html, render(report, comparison))
    if to_stdout:
        print_json(as_data(report, comparison))
    else:
        report_on.show(report)
        if comparison is not None:
            report_on.show_comparison(comparison)
    return 1 if comparison is not None and comparison.slower else 0


def _measure(options: dict[str, Any], *, max_seconds: float, against: BenchReport | None) -> BenchReport:
    from .._errors import InputError
    from ..bench.models import bench_model, find_model_methods
    from ..bench.preflight import parse_sizes
    from ..bench.runner import STEPS
    from ..bench.tensors import bench_tensors
    from ..reporters.terminal import progress
    from ..semantics.catalogue import find_methods
    from ..semantics.sources import available_kinds, parse_dtype

    if str(Path.cwd()) not in sys.path:  # `--model` and `--method` may name a file in the folder one stands in
        sys.path.insert(0, str(Path.cwd()))
    methods, sizes, sources = (split_commas(options[name]) for name in ("method", "size", "source"))
    if options["model"] is not None:
        for name in ("size", "source"):
            if options[name]:
                raise InputError(f"`--{name}` is for tensors and `--model` for models: leave one of them out")
        total = STEPS * len(find_model_methods(methods))
        with progress("measuring", total=total) as advance:
            return bench_model(
                options["model"],
                methods,
                device=options["device"],
                dtype=options["dtype"],
                max_seconds=max_seconds,
                against=against,
                on_step=advance,
            )
    dtype = parse_dtype(options["dtype"] or "float32")
    if sources == ["all"]:
        sources = list(available_kinds(dtype))
    total = STEPS * len(find_methods(methods)) * len(parse_sizes(sizes)) * len(sources or ["no_grad"])
    with progress("measuring", total=total) as advance:
        return bench_tensors(
            methods,
            sizes=sizes,
            device=options["device"],
            dtype=dtype,
            sources=sources,
            max_seconds=max_seconds,
            against=against,
            on_step=advance,
        )
