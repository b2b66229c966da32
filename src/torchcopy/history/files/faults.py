"""What is wrong with a file, before it is known whose file it is."""

from __future__ import annotations


class Fault(Exception):  # noqa: N818  # users get a CorruptSnapshotError
    """Something in a file is not as it was saved. Becomes a `CorruptSnapshotError` with the file's path."""

    def __init__(self, message: str, file: str = "") -> None:
        super().__init__(message)
        self.file = file


def shown(x: object) -> str:
    """`repr(x)`, short enough for a message of one line, whatever stands in a hostile file."""
    try:
        text = ascii(x)
    except (RecursionError, ValueError):
        return f"a {type(x).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
