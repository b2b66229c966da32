"""The application: the commands and what they have in common."""

from __future__ import annotations

from typing import Annotated

import typer

from .._version import __version__

app = typer.Typer(
    name="torchcopy",
    help="What every way to copy a PyTorch tensor or model does and costs, measured on your machine.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"torchcopy {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version
