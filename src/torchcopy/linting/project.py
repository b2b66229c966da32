"""The files around the one that is checked: read and parsed when an import leads to them, and then kept."""

from __future__ import annotations

import collections
import functools
import io
import os
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

from .reading import digest_of
from .source import Source

if TYPE_CHECKING:
    from .inference.file_facts import FileFacts

_MOST_AT_ONCE = 200  # files that one file leads to
_MOST_KEPT = 64  # parsed files; a file of a thousand lines takes some 2 MB
_MOST_BYTES = 1_500_000
_HIGHEST_CLIMB = 8  # folders up, in search of where absolute imports begin
_BESIDE_TESTS = ("src", "python")  # where a project's own package may be, seen from its tests
_INSTALLED = ("site-packages", "dist-packages")
_NEVER_OWN = frozenset(  # a project may be torchvision itself, and is none of these: no folder is searched for them
    """
    torch os sys re math copy time typing collections itertools functools random json pickle pathlib logging
    argparse abc dataclasses warnings datetime inspect types enum operator contextlib io string subprocess threading
    multiprocessing queue shutil glob csv struct hashlib tempfile traceback unittest pytest
    """.split()
)


class Project:
    """Finds modules by their name, from the file that imports them; without a file system it knows none.

    Attributes:
        used: the files that were read for the sake of another: what a finding there may depend on.
        lookups: for each importing file, the modules that were looked for and where they were found.
        digests: of the files that were read.
    """

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.lookups: dict[str, dict[str, str | None]] = {}
        self.digests: dict[str, bytes] = {}
        self._facts: collections.OrderedDict[str, FileFacts | None] = collections.OrderedDict()

    def find(self, module: str, importer: str) -> FileFacts | None:
        """The facts of a module, absolute or with leading dots, as the file `importer` would import it."""
        path = module_path(module, os.path.dirname(os.path.abspath(importer)))
        self.lookups.setdefault(importer, {})[module] = path
        return None if path is None else self.facts_of(path)

    def facts_of(self, path: str) -> FileFacts | None:
        """The facts of a file; nothing where it cannot be read or parsed."""
        self.used.add(path)
        if path in self._facts:
            self._facts.move_to_end(path)
            return self._facts[path]
        facts = self._read(path)
        self._facts[path] = facts
        if len(self._facts) > _MOST_AT_ONCE:
            self._facts.popitem(last=False)
        return facts

    def trim(self) -> None:
        """Lets go of the files that were not asked about for long, between two that are checked.

        What is left forgets what it worked out: it may lead to those that are gone.
        """
        if len(self._facts) <= _MOST_KEPT:
            return
        while len(self._facts) > _MOST_KEPT // 2:
            _, gone = self._facts.popitem(last=False)
            if gone is not None:
                gone.release()
        for facts in self._facts.values():
            if facts is not None:
                facts.forget()

    def _read(self, path: str) -> FileFacts | None:
        from .inference.file_facts import FileFacts

        try:
            if Path(path).stat().st_size > _MOST_BYTES:
                return None
            content = Path(path).read_bytes()
            self.digests[path] = digest_of(content)
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
            text = io.TextIOWrapper(io.BytesIO(content), encoding).read()
            return FileFacts(Source(path, text), self)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None


@functools.lru_cache(maxsize=4096)
def module_path(module: str, folder: str) -> str | None:
    """The file of a module for importers in `folder`: there for a relative name, else below it or one above."""
    name = module.lstrip(".")
    dots = len(module) - len(name)
    parts = name.split(".") if name else []
    if dots:
        for _ in range(dots - 1):
            folder = os.path.dirname(folder)
        return _below(folder, parts)
    if not parts or parts[0] in _NEVER_OWN:
        return None
    for _ in range(_HIGHEST_CLIMB):
        own = os.path.basename(folder)
        if own in _INSTALLED:
            return None
        above = os.path.dirname(folder)
        if own == parts[0] and (found := _below(above, parts)) is not None:
            return found
        for begin in (folder, *(os.path.join(folder, each) for each in _BESIDE_TESTS)):
            if (found := _below(begin, parts)) is not None:
                return found
        if above == folder:
            return None
        folder = above
    return None


def _below(folder: str, parts: list[str]) -> str | None:
    stem = os.path.join(folder, *parts)
    for path in (f"{stem}.py", os.path.join(stem, "__init__.py")):
        if os.path.isfile(path):
            return path
    return None
