"""The options that several commands share, with the same names, order and words everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        metavar="ID",
        help="A copy method, or `PACKAGE.MODULE:FUNCTION` of your own; repeat, or use commas. Default: all.",
        show_default=False,
    ),
]
Device = Annotated[str, typer.Option("--device", metavar="DEVICE", help="`cpu`, `cuda`, `cuda:1`, `mps`, …")]
Dtype = Annotated[str, typer.Option("--dtype", metavar="DTYPE", help="`float32`, `bfloat16`, `int64`, …")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print a Markdown table on stdout.")]
Debug = Annotated[bool, typer.Option("--debug", help="On an error, show the traceback too.")]


def split_commas(values: list[str] | None) -> list[str] | None:
    """`["a,b", "c"]` as `["a", "b", "c"]`; None where the option was not given."""
    if not values:
        return None
    parts = [part.strip() for value in values for part in value.split(",")]
    return [part for part in parts if part] or [""]
