"""`torchcopy table`: the truth table."""

from __future__ import annotations

import contextlib
import sys

from ._app import app
from ._options import Debug, Device, Dtype, Json, Markdown, Methods, split_commas


@app.command()
def table(
    method: Methods = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    json: Json = False,
    markdown: Markdown = False,
    debug: Debug = False,
) -> None:
    """What every way to copy does to gradients and memory, probed now.

    With one method, all it does to every kind of source.

    Example: `torchcopy table --device cuda --dtype bfloat16 --method clone,detach`
    """
    del debug  # read where errors are handled
    from .._errors import InputError
    from ..reporters import table as report
    from ..reporters.as_json import print_json
    from ..reporters.terminal import output, progress
    from ..semantics.catalogue import find_methods
    from ..semantics.probe import truth_table

    if json and markdown:
        raise InputError("`--json` and `--markdown` exclude each other: choose one")
    names = split_commas(method)
    with (
        progress("probing", total=len(find_methods(names))) as advance,
        contextlib.redirect_stdout(sys.stderr),  # what a method of the user's prints
    ):
        rows = truth_table(names, device=device, dtype=dtype, on_method=advance)
    if json:
        print_json([row.to_dict() for row in rows])
    elif markdown:
        output(report.as_markdown(rows))
    else:
        report.show(rows)
