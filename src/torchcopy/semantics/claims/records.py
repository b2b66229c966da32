"""The records of the claims: what an article asserts, and what was found when it was tried."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..._errors import InputError
from ..timing import TimeRatio

if TYPE_CHECKING:
    from .measurements import Measurements

Verdict = Literal["holds", "does not hold", "depends"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


def parse_verdict(name: str) -> Verdict:
    """The verdict called `name`; hyphens may stand for spaces, as in `does-not-hold`.

    Raises:
        InputError: there is none.
    """
    for verdict in VERDICTS:
        if verdict == name.replace("-", " "):
            return verdict
    raise InputError(f"there is no verdict {name!r}: use `holds`, `does-not-hold` or `depends`")


@dataclasses.dataclass(frozen=True)
class Article:
    """One of the articles whose claims are checked.

    Attributes:
        slug: its short name, the first part of its claims' ids.
        title: its title; where the text at hand bears none, its subject.
        language: what it is written in.
    """

    slug: str
    title: str
    language: str

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class MeasuredRatio:
    """How many times as long one expression takes as another, on one kind of source.

    Attributes:
        call: the expression that was timed.
        base: the one it was compared with.
        source: what both were given, such as `2^10 elements`.
        ratio: the ratio, with its spread.
    """

    call: str
    base: str
    source: str
    ratio: TimeRatio

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return {"call": self.call, "base": self.base, "source": self.source, **self.ratio.to_dict()}


@dataclasses.dataclass(frozen=True)
class Finding:
    """What a check came to.

    Attributes:
        verdict: whether the claim holds.
        evidence: what was seen, with numbers and messages; Markdown, code in backticks.
        ratios: the time ratios behind it, if it is about time.
    """

    verdict: Verdict
    evidence: str
    ratios: tuple[MeasuredRatio, ...] = ()


Check = Callable[["Measurements"], Finding]


@dataclasses.dataclass(frozen=True)
class Claim:
    """Something an article asserts about copying, with the check that decides it.

    Attributes:
        id: the article's slug, a slash, and a name.
        claim: what is asserted, in our own words; Markdown.
        check: measures, and decides.
        reproduction: at most five lines of Python that show what is wrong with the claim; empty if it holds.
        timing: whether it is decided by times, so that another run may decide otherwise.
    """

    id: str
    claim: str
    check: Check = dataclasses.field(repr=False)
    reproduction: str = dataclasses.field(default="", repr=False)
    timing: bool = False

    @property
    def article(self) -> str:
        """The slug of the article."""
        return self.id.partition("/")[0]


@dataclasses.dataclass(frozen=True)
class ClaimResult:
    """A claim, and what was found just now.

    Attributes:
        id: of the claim.
        article: slug of the article.
        title: title of the article.
        language: what the article is written in.
        claim: what it asserts, in our own words; Markdown.
        verdict: whether that holds here.
        evidence: what was seen; Markdown.
        timing: whether it is decided by times.
        ratios: the time ratios behind the verdict, each with its spread.
        reproduction: at most five lines of Python that show it; None where the claim holds.
        reproduction_output: what they printed just now.
    """

    id: str
    article: str
    title: str
    language: str
    claim: str
    verdict: Verdict
    evidence: str
    timing: bool = False
    ratios: tuple[MeasuredRatio, ...] = ()
    reproduction: str | None = None
    reproduction_output: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {**plain, "ratios": [ratio.to_dict() for ratio in self.ratios]}
