"""`torchcopy claims`: what five articles say about copying, checked now."""

from __future__ import annotations

from typing import Annotated

import typer

from ._app import app
from ._options import Debug, Json, split_commas


@app.command()
def claims(
    id: Annotated[
        list[str] | None,
        typer.Option(
            "--id", metavar="ID", help="A claim; repeat, or use commas. Default: all.", show_default=False
        ),
    ] = None,
    article: Annotated[
        list[str] | None,
        typer.Option("--article", metavar="SLUG", help="Only the claims of this article.", show_default=False),
    ] = None,
    verdict: Annotated[
        list[str] | None,
        typer.Option(
            "--verdict",
            metavar="VERDICT",
            help="Only the claims found to be so: `holds`, `does-not-hold` or `depends`.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page of the documentation on stdout.")
    ] = False,
    debug: Debug = False,
) -> None:
    """What five articles say about copying, each statement checked now by running it.

    A claim holds, does not hold, or depends; what does not hold is shown with at most five lines of Python.

    Example: `torchcopy claims --article deepcopy-vs-clone --verdict does-not-hold`
    """
    del debug  # read where errors are handled
    import datetime

    from .._errors import InputError
    from ..reporters import claims as report
    from ..reporters.as_json import print_json
    from ..reporters.terminal import output, progress
    from ..semantics.claims import check_claims, find_claims, parse_verdict
    from ..semantics.machine import describe_machine

    if json and markdown:
        raise InputError("`--json` and `--markdown` exclude each other: choose one")
    ids, articles = split_commas(id), split_commas(article)
    verdicts = [parse_verdict(name) for name in split_commas(verdict) or ()]
    with progress("checking", total=len(find_claims(ids, articles=articles))) as advance:
        results = check_claims(ids, articles=articles, on_claim=advance)
    chosen = [result for result in results if not verdicts or result.verdict in verdicts]
    if json:
        print_json([result.to_dict() for result in chosen])
    elif markdown:
        output(report.as_markdown(chosen, describe_machine(), datetime.date.today()))
    else:
        report.show(chosen, describe_machine(), in_full=ids is not None)
