"""Changed files are written whole, over what was read and nothing newer, with the rights that they had."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from .._errors import InputError


def replace_file(path: str, before: bytes, after: bytes) -> None:
    """Puts `after` into a file that holds `before`. A link stays one, and what it leads to is written.

    Raises:
        InputError: the file has changed since it was read, or cannot be written. It is as it was.
    """
    target = Path(os.path.realpath(path))
    temporary = None
    try:
        if not os.access(target, os.W_OK):
            raise InputError("it is write-protected")
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())  # else a power cut may leave an empty file in place of the old one
        shutil.copymode(target, temporary)
        with contextlib.suppress(OSError):  # another's file, in a shared folder
            status = target.stat()
            os.chown(temporary, status.st_uid, status.st_gid)
        if target.read_bytes() != before:
            raise InputError("it has changed while it was checked; run again")
        Path(temporary).replace(target)
        temporary = None
    except OSError as error:
        raise InputError(f"it cannot be written: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
