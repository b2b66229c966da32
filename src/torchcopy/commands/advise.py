"""`torchcopy advise`: from what a copy has to be, to what to write."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from ._app import app
from ._options import Debug, Json


@app.command()
def advise(
    context: typer.Context,
    graph: Annotated[
        str, typer.Option("--graph", metavar="GRAPH", help="`detach`, or `keep` for gradients back to the source.")
    ] = "detach",
    memory: Annotated[
        str, typer.Option("--memory", metavar="MEMORY", help="`own`, `share`, or `lazy` (copy-on-write).")
    ] = "own",
    device: Annotated[
        str | None,
        typer.Option(
            "--device", metavar="DEVICE", help="Where the copy has to be, if elsewhere.", show_default=False
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", metavar="DTYPE", help="As what, if not as the source.", show_default=False),
    ] = None,
    size: Annotated[
        str, typer.Option("--size", metavar="SIZE", help="Elements to take the timings with: `1000`, `2^20`, `1M`.")
    ] = "2^20",
    nested: Annotated[
        bool, typer.Option("--nested", help="A model, a state_dict or a container rather than one tensor.")
    ] = False,
    hot_loop: Annotated[bool, typer.Option("--hot-loop", help="Again and again, with the same shapes.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """The one expression to write for the copy you need: why, what to avoid, what it costs here.

    Without options, in a terminal, it asks.

    Example: `torchcopy advise --graph keep --size 2^16`
    """
    del debug  # read where errors are handled
    from ..bench.preflight import parse_size
    from ..reporters import advise as report
    from ..reporters.as_json import print_json
    from ..reporters.terminal import progress
    from ..semantics.advice import Needs, advise_on

    answers: dict[str, Any] = {
        "graph": graph,
        "memory": memory,
        "device": device,
        "dtype": dtype,
        "numel": parse_size(size),
        "nested": nested,
        "hot_loop": hot_loop,
    }
    if not _any_given(context) and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
        answers = report.ask(answers)
    with progress("measuring"):
        advice = advise_on(Needs(**answers))
    if json:
        print_json(advice.to_dict())
    else:
        report.show(advice)


def _any_given(context: typer.Context) -> bool:
    """Whether an option was written on the command line."""
    sources = (context.get_parameter_source(name) for name in context.params)
    return any(source is not None and source.name == "COMMANDLINE" for source in sources)
