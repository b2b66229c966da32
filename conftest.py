"""The Python examples in the Markdown pages are tests: each block runs, and what it shows must come out."""

from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["docs/*.md", "docs/codes/*.md", "docs/decisions/*.md", "README.md"],
).pytest()
