"""Fixes of one file: in rounds, until there is nothing left to fix."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable

from .checking import Checked, check
from .documents import Document
from .findings import Finding, Fix
from .project import Project
from .reading import NotReadError, digest_of
from .records import FixedFile, UnsafeFix

_MOST_ROUNDS = 1_000  # each may leave one fix less that overlaps another: as many as a chain of calls has


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    """A file with its fixes made.

    Attributes:
        document: as it is then.
        checked: what is found in it then.
        record: what was done; None where nothing was.
        is_unfinished: whether something is left that can be fixed: rules that undo each other would never end.
    """

    document: Document
    checked: Checked
    record: FixedFile | None
    is_unfinished: bool = False


def fix(document: Document, codes: frozenset[str], project: Project, *, unsafe: bool) -> Fixed:
    """Makes the fixes of a file, those that are not safe only if `unsafe`. Nothing is written.

    Fixes that overlap are made one round after the other. One after which the file would not parse is not made.

    Raises:
        NotReadError: the file cannot be parsed.
    """
    first = document
    made: list[Finding] = []
    notes: list[UnsafeFix] = []
    refused: set[tuple[str, str]] = set()
    seen = {_digest(document)}
    is_unfinished = True
    checked = check(document.source, codes, project)
    for _ in range(_MOST_ROUNDS):
        wanted = [
            finding
            for finding in checked.findings
            if finding.fix is not None
            and (finding.fix.safe or unsafe)
            and _key(document, finding) not in refused
            and document.can_apply(finding.fix.edits)
        ]
        round_ = _apply(document, _without_overlaps(wanted), codes, project)
        if round_.refused is not None:
            refused.add(_key(document, round_.refused))
        if round_.made and _digest(round_.document) in seen:
            break
        if round_.made:
            seen.add(_digest(round_.document))
            notes += [_note(document, finding) for finding in round_.made if finding.fix and not finding.fix.safe]
            made += round_.made
            document, checked = round_.document, round_.checked or checked
        elif round_.refused is None:
            is_unfinished = False
            break
    if not made:
        return Fixed(document, checked, None, is_unfinished)
    texts = document.changes_from(first)  # type: ignore[arg-type]  # both are of one kind
    record = FixedFile(document.path, texts, tuple(finding.code for finding in made), tuple(notes))
    return Fixed(document, checked, record, is_unfinished)


@dataclasses.dataclass(frozen=True, slots=True)
class _Round:
    """Some fixes made; or one that cannot be."""

    document: Document
    checked: Checked | None = None
    made: tuple[Finding, ...] = ()
    refused: Finding | None = None


def _apply(document: Document, chosen: list[Finding], codes: frozenset[str], project: Project) -> _Round:
    """Makes the chosen fixes. Where the file would not parse with all of them, the first half is tried alone."""
    while chosen:
        edits = [edit for finding in chosen if finding.fix for edit in finding.fix.edits]
        try:
            after = document.apply(edits)
            if after.broken_parts() == document.broken_parts():
                return _Round(after, check(after.source, codes, project), tuple(chosen))
        except NotReadError:
            pass
        if len(chosen) == 1:
            return _Round(document, refused=chosen[0])
        chosen = chosen[: len(chosen) // 2]
    return _Round(document)


def _without_overlaps(findings: Iterable[Finding]) -> list[Finding]:
    """As many as can be made at once: the first of those that overlap."""
    chosen: list[Finding] = []
    taken: list[tuple[int, int]] = []  # in order, none over another
    for finding in findings:
        spans = _spans(finding.fix)
        if spans and not any(_meets(span, taken) for span in spans):
            chosen.append(finding)
            for span in spans:
                bisect.insort(taken, span)
    return chosen


def _meets(span: tuple[int, int], taken: list[tuple[int, int]]) -> bool:
    """Whether a span overlaps one of those that are taken, or touches it."""
    at = bisect.bisect_left(taken, span)
    return (at < len(taken) and taken[at][0] <= span[1]) or (at > 0 and taken[at - 1][1] >= span[0])


def _spans(fix: Fix | None) -> list[tuple[int, int]]:
    return [] if fix is None else [(edit.start, edit.end) for edit in fix.edits]


def _digest(document: Document) -> bytes:
    return digest_of(document.source.text.encode("utf-8", "surrogatepass"))


def _key(document: Document, finding: Finding) -> tuple[str, str]:
    """What names a finding from one round to the next."""
    return finding.code, document.source.line_at(finding.line)


def _note(document: Document, finding: Finding) -> UnsafeFix:
    placed = document.place(finding)
    return UnsafeFix(placed.code, placed.line, placed.note, placed.cell)
