"""Files are written whole, or what was there stays."""

from __future__ import annotations

import contextlib
from pathlib import Path

from .._errors import InputError


def write_text(path: Path, text: str) -> None:
    """Writes a whole text file, as UTF-8, or leaves what was there.

    Raises:
        InputError: the file cannot be written.
    """
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a whole file or leaves what was there.

    Raises:
        InputError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}") from error
