"""Whether a file that is asked for can be written, found out before the work that fills it."""

from __future__ import annotations

import os
from pathlib import Path

from ._errors import InputError


def check_writable(path: Path, option: str) -> None:
    """Refuses a file that cannot be written, after trying a temporary one beside it.

    Raises:
        InputError: it is a folder, its folder is missing, or nothing can be written there.
    """
    try:
        if path.is_dir():
            raise InputError(f"`{option} {path}` is a folder: name a file in it")
        if not path.parent.is_dir():
            raise InputError(f"`{option} {path}`: there is no folder {str(path.parent)!r}; make it first")
        if path.exists() and not os.access(path, os.W_OK):
            raise InputError(f"`{option} {path}` is write-protected: choose another name")
        trial = path.with_name(f".{path.name}.part")
        trial.touch()
        trial.unlink()
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"`{option} {path}` cannot be written ({reason}): choose another place") from error


def check_distinct(outputs: dict[str, Path | None]) -> None:
    """Refuses outputs, by option, of which two are one file.

    Raises:
        InputError: two are.
    """
    taken: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        if other := taken.get(path.resolve()):
            raise InputError(f"`{other}` and `{option}` name the same file {str(path)!r}: give each its own")
        taken[path.resolve()] = option
