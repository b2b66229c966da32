"""What goes wrong in a benchmark is told in one line, and in the exit status, as the command line does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from torchcopy._errors import TorchcopyError


@contextmanager
def errors_end(program: str) -> Iterator[None]:
    """Ends `program` with status 2 where the body raises what a user can mend, with 130 where it is interrupted."""
    try:
        yield
    except (TorchcopyError, OSError) as error:
        print(f"{program}: error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        sys.exit(130)
