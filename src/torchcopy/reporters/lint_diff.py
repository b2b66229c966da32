"""What fixes would change, as a unified diff that `patch` and `git apply` read."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator

from ..linting.records import FixedFile, FixedText

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def as_diff(fixed: Iterable[FixedFile]) -> str:
    """The diff of some files. That of a notebook is one of its cells, to be read and not to be applied."""
    return "".join(line for file in fixed for text in file.texts for line in _diff(file.path, text))


def _diff(path: str, text: FixedText) -> Iterator[str]:
    name = f"{path}:cell {text.cell}" if text.cell else path
    before, after = _LINE.findall(text.before), _LINE.findall(text.after)
    for line in difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
