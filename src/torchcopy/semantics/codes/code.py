"""What a finding's code stands for."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

Family = Literal["hazard", "waste", "idiom"]


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

    @property
    def family(self) -> Family:
        """Hazards make results wrong, waste costs time and memory, idioms are discouraged."""
        families: dict[str, Family] = {"1": "hazard", "2": "waste", "3": "idiom"}
        return families[self.code[2]]

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return {**dataclasses.asdict(self), "family": self.family}
