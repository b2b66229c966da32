"""`torchcopy explain`: the story behind a code of the audit and the linter."""

from __future__ import annotations

from typing import Annotated

import typer

from ._app import app
from ._options import Debug, Json, split_commas


@app.command()
def explain(
    codes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CODE]...",
            help="Codes such as `TC101`, or their names; `TC1` lists all that begin so. Default: list all.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """What a code stands for: the story, a program that shows it, and what to write instead.

    Both programs run as they stand.

    Example: `torchcopy explain TC101`
    """
    del debug  # read where errors are handled
    from ..reporters import explain as report
    from ..reporters.as_json import print_json
    from ..semantics.codes import CODES, match_codes

    given = split_commas(codes)
    chosen = match_codes(given) if given else CODES
    if json:
        print_json([code.to_dict() for code in chosen])
    elif given and all(len(match_codes(each)) == 1 for each in given):
        report.show(chosen)
    else:
        report.show_list(chosen)
