"""`torchcopy doctor`: the machine, the versions and the fast paths."""

from __future__ import annotations

from ._app import app
from ._options import Debug, Json


@app.command()
def doctor(json: Json = False, debug: Debug = False) -> None:
    """Versions, hardware, and which fast ways to copy work on the installed torch.

    Example: `torchcopy doctor --json`
    """
    del debug  # read where errors are handled
    from ..reporters import doctor as report
    from ..reporters.as_json import print_json
    from ..semantics.machine import diagnose

    diagnosis = diagnose()
    if json:
        print_json(diagnosis.to_dict())
    else:
        report.show(diagnosis)
