"""Files to check, and what is found in them, for the tests of everything around the rules."""

import json

from torchcopy.linting.fix_options import FixOptions
from torchcopy.linting.running import lint

BAD = "def keep(t):\n    return t.clone().detach()\n"
GOOD = "def keep(t):\n    return t.detach().clone()\n"


def run(*paths, fix_options=None, **options):
    """A run without a cache, in this process."""
    options.setdefault("cache", False)
    return lint([str(path) for path in paths], fix_options=fix_options, processes=1, **options)


def write(folder, **texts):
    """Files by their stem; those that end in `_nb` are notebooks of one cell."""
    for stem, text in texts.items():
        (folder / f"{stem}.py").write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def places(report):
    return [(finding.line, finding.code) for finding in report.findings]


def fix(path, *, unsafe=False):
    return run(path, fix_options=FixOptions("written", unsafe))


def notebook(*cells, language="python", indent=1, **dumping):
    """The text of a notebook with these code cells."""
    made = {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": None,
                "metadata": {},
                "outputs": [{"output_type": "stream", "name": "stdout", "text": ["t.clone().detach()\n"]}],
                "source": cell.splitlines(keepends=True) if isinstance(cell, str) else cell,
            }
            for cell in cells
        ],
        "metadata": {"kernelspec": {"language": language, "name": language}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(made, indent=indent, **dumping) + "\n"
