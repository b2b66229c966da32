"""What of a notebook's cell is Python: IPython's own syntax gives way to placeholders of the same length."""

from __future__ import annotations

import ast
import re
import warnings

_PYTHON_BELOW = {"time", "timeit", "capture", "prun"}  # cell magics that have Python below them
_CELL_MAGIC = re.compile(r"\s*%%(\w+)[^\n]*")
_TIMED = re.compile(r"([ \t]*)%(?:time|timeit|prun)[ \t](?=[ \t]*[^\s-])")
_LINE_MAGIC = re.compile(r"[ \t]*(?:!|\?|%[A-Za-z_])")
_ASSIGNED = re.compile(r"[ \t]*[A-Za-z_][\w, .]*?[ \t]*=[ \t]*(?=!|%[A-Za-z_])")
_HELP = re.compile(r"[ \t]*%{0,2}[A-Za-z_][\w.*]*\?\??[ \t]*$")


def as_python(text: str) -> str | None:
    """The cell with a placeholder for each line that only IPython knows; None where it is in another language.

    Each character that stays is where it was, so that offsets are those of the cell.
    """
    magic = _CELL_MAGIC.match(text)
    if magic:
        if magic[1] not in _PYTHON_BELOW:
            return None
        text = f"{_blank(magic[0])}{text[magic.end() :]}"
    if fault_of(text) is None:
        return text
    lines = text.split("\n")
    continued = False
    for at, line in enumerate(lines):
        if continued:
            continued = line.rstrip("\r").endswith("\\")
            lines[at] = _blank(line)
        elif (kept := _kept(line)) is not None:
            continued = line.rstrip("\r").endswith("\\")
            lines[at] = kept
    return "\n".join(lines)


def fault_of(text: str) -> BaseException | None:
    """Why a text is no Python; None where it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return error
    return None


def _kept(line: str) -> str | None:
    """What stands for a line of IPython's syntax; None where it is none."""
    if timed := _TIMED.match(line):
        indent = timed[1]
        return f"{indent}0{' ' * (timed.end() - len(indent) - 2)};{line[timed.end() :]}"
    if _LINE_MAGIC.match(line) or _HELP.match(line):
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        return f"{indent}0{_blank(line[len(indent) + 1 :])}"
    if assigned := _ASSIGNED.match(line):
        return f"{assigned[0]}0{_blank(line[assigned.end() + 1 :])}"
    return None


def _blank(text: str) -> str:
    """White space of the same length; line ends stay."""
    return re.sub(r"[^\r\n]", " ", text)
