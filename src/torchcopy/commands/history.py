"""`torchcopy history`: what is in a saved history, and what moved between two snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ._app import app
from ._options import Debug, Json

history = typer.Typer(
    name="history",
    help="What is in a saved history, and what moved between two snapshots.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
app.add_typer(history)

_SNAPSHOT_HELP = "A saved snapshot, or one of a saved history: `DIR:-1`, `DIR:step=100`, `DIR:best=val_loss`."


@history.command()
def show(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where `history.save` put it.", show_default=False)
    ],
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw metrics and movement: .png or .svg.", show_default=False),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(
            "--part", metavar="NAME", help="Whose weights are drawn. Default: modules.", show_default=False
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """The snapshots of a saved history: labels, metrics, size, and which are the best.

    Example: `torchcopy history show runs/h --plot history.png`
    """
    del debug  # read where errors are handled
    from .._errors import InputError
    from ..bench.preflight import check_outputs
    from ..history.history import History
    from ..history.overview import overview
    from ..history.selecting import reading
    from ..reporters import history as report
    from ..reporters.as_json import print_json

    if part is not None and plot is None:
        raise InputError("`--part` says whose weights are drawn: give `--plot FILE` too")
    check_outputs(plot=plot)
    with reading(str(directory)):
        loaded = History.load(directory)
    if plot is not None:
        loaded.plot(plot, part=part)
    seen = overview(loaded)
    if json:
        print_json(seen.to_dict())
    else:
        report.show(seen, str(directory))


@history.command()
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=_SNAPSHOT_HELP, show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B", help="The other one, named likewise.", show_default=False)],
    part: Annotated[
        str | None,
        typer.Option("--part", metavar="NAME", help="Which part. Default: the only module.", show_default=False),
    ] = None,
    by: Annotated[Literal["tensor", "module"], typer.Option("--by", help="A line for each of these.")] = "tensor",
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="How many lines at most.")] = 20,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """What moved from snapshot A to snapshot B: what moved most first, and what only one of them has.

    Example: `torchcopy history compare runs/h:step=100 runs/h:best=val_loss --by module`
    """
    del debug  # read where errors are handled
    from ..history.comparing.comparison import compare as compare_states
    from ..history.selecting import load_selected
    from ..reporters import history as report
    from ..reporters.as_json import print_json

    compared = compare_states(*load_selected(a, b), part=part)
    if json:
        print_json(compared.to_dict())
    else:
        report.show_comparison(compared, by=by, top=top)
