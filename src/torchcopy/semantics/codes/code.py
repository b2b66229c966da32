"""What a finding's code stands for."""

from __future__ import annotations

import dataclasses
import difflib
import textwrap
from typing import Any, Literal

Family = Literal["hazard", "waste", "idiom"]


@dataclasses.dataclass(frozen=True)
class InSource:
    """What `torchcopy lint` sees of a mistake.

    Attributes:
        sees: what is reported, and what is left alone. Paragraphs, separated by empty lines.
        before: some lines in which it is found.
        after: the same lines without it.
        setup: what has to stand above these lines for it to be found; a last line that opens a block holds them.
    """

    sees: str
    before: str
    after: str
    setup: str = ""

    def programs(self) -> tuple[str, str]:
        """The lines before and after as they would stand in a file."""
        indent = "    " if self.setup.endswith(":\n") else ""
        before, after = (textwrap.indent(lines, indent) for lines in (self.before, self.after))
        return self.setup + before, self.setup + after

    def diff(self) -> list[str]:
        """The lines, each behind a space, or behind `-` or `+` where it goes or comes."""
        lines = difflib.ndiff(self.before.splitlines(), self.after.splitlines())
        return [line[0] + line[2:] for line in lines if not line.startswith("?")]


@dataclasses.dataclass(frozen=True)
class Code:
    """A kind of mistake with copies, as `audit` and `lint` report it and `torchcopy explain` tells it.

    Attributes:
        code: `TC101`; the first digit says which family.
        name: a few words, in kebab case, unique: `stale-state-dict`.
        title: one line.
        story: what goes wrong, and why PyTorch says nothing. Paragraphs, separated by empty lines.
        wrong: a program of few lines that shows the mistake and asserts what it does. Runs as it stands.
        right: the same program without the mistake, asserting what is now right. Runs as it stands.
        fix: what to write instead, in one sentence.
        audited: whether `torchcopy audit` looks for it.
        linted: whether `torchcopy lint` looks for it.
        on: whether it is looked for unless the user says otherwise.
        threads: public discussions of it, as URLs.
        in_source: what the linter sees of it, with an example; for those it looks for.
    """

    code: str
    name: str
    title: str
    story: str
    wrong: str
    right: str
    fix: str
    audited: bool = True
    linted: bool = True
    on: bool = True
    threads: tuple[str, ...] = ()
    in_source: InSource | None = None

    @property
    def family(self) -> Family:
        """Hazards make results wrong, waste costs time and memory, idioms are discouraged."""
        families: dict[str, Family] = {"1": "hazard", "2": "waste", "3": "idiom"}
        return families[self.code[2]]

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return {**dataclasses.asdict(self), "family": self.family}
