"""What tools for continuous integration are told of a finding: which line, how bad, and why.

`audit` and `lint` find different things; what they have found becomes a `Diagnostic`, and
`github_annotations` and `sarif` write those.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Literal

from ..auditing.records import Finding, Report
from ..linting.records import LintReport, PlacedFinding
from ..semantics.codes import find_code

Level = Literal["error", "warning", "note"]
_LEVELS: dict[str, Level] = {"TC1": "error", "TC2": "warning", "TC3": "note"}


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """One finding, at one line.

    Attributes:
        code: `TC101`.
        message: what is wrong, a sentence.
        path: of the file, relative to the working directory where it lies below it; empty where there is none.
        line: from 1 on; 0 where it is not known.
        column: in characters, from 1 on; None where it is not known.
        end_column: behind the last character; None where it is not known or on another line.
        fix: what to write instead; empty where there is nothing to say.
        count: how often it happened.
        related: other lines that have a part in it, each with the part.
    """

    code: str
    message: str
    path: str
    line: int
    column: int | None = None
    end_column: int | None = None
    fix: str = ""
    count: int = 1
    related: tuple[Diagnostic, ...] = ()

    @property
    def level(self) -> Level:
        """Hazards are errors, waste is a warning, a discouraged idiom a note."""
        return level_of(self.code)


def level_of(code: str) -> Level:
    """How bad a finding with this code is."""
    return _LEVELS.get(code[:3], "note")


def of_audit(report: Report) -> list[Diagnostic]:
    """What an audit has found."""
    return [_of_finding(finding) for finding in report.findings]


def _of_finding(finding: Finding) -> Diagnostic:
    places = [
        Diagnostic(
            finding.code, place.role, place.line.path, place.line.line, place.line.column, place.line.end_column
        )
        for place in finding.places
    ]
    first = places[0] if places else Diagnostic(finding.code, "", "", 0)
    return dataclasses.replace(
        first, message=finding.message, fix=finding.fix, count=finding.count, related=tuple(places[1:])
    )


def of_lint(report: LintReport) -> list[Diagnostic]:
    """What the linter has found. Of a notebook, the line is that of the file, and the message names the cell's."""
    return [_of_placed(finding) for finding in report.findings]


def _of_placed(finding: PlacedFinding) -> Diagnostic:
    first = Diagnostic(finding.code, finding.message, finding.path, finding.file_line)
    fix = find_code(finding.code).fix
    if finding.cell:
        where = f"cell {finding.cell}, line {finding.line}"
        return dataclasses.replace(first, message=f"{finding.message} ({where})", fix=fix)
    related = tuple(Diagnostic(finding.code, also.role, finding.path, also.line) for also in finding.also)
    ends_there = finding.end_line == finding.line
    return dataclasses.replace(
        first,
        column=finding.column,
        end_column=finding.end_column if ends_there else None,
        fix=fix,
        related=related,
    )


def codes_of(diagnostics: Iterable[Diagnostic]) -> list[str]:
    """The codes that occur, each once, in order."""
    return sorted({diagnostic.code for diagnostic in diagnostics})
