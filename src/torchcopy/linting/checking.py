"""One source: which rules are run on it, and which comments silence what they find."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Iterable, Iterator

from ..semantics.codes import CODES
from ..semantics.codes.comments import SilencingComment, find_comments, names_codes
from .findings import Edit, Finding
from .project import Project
from .reading import NotReadError, explain_syntax_error
from .settings import DEFAULT_CODES
from .source import Source

_OF_NO_USE = "this comment silences nothing"


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """What was found in one source.

    Attributes:
        findings: that no comment silences, in the order of lines.
        unused: the comments of no use, each with what is said of it.
        faults: codes whose rule has failed, each with the exception.
    """

    findings: tuple[Finding, ...] = ()
    unused: tuple[tuple[SilencingComment, str], ...] = ()
    faults: tuple[tuple[str, Exception], ...] = ()


def check(source: Source, codes: frozenset[str], project: Project, *, noqa: bool = True) -> Checked:
    """What the rules for `codes` find in a source.

    Args:
        source: to check.
        codes: that are looked for.
        project: finds what it imports.
        noqa: whether `# noqa` silences too, beside our own comments.

    Raises:
        NotReadError: it cannot be parsed, or is nested too deeply.
    """
    text = source.text
    try:
        _ = source.tree
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise explain_syntax_error(error, text) from error
    findings, faults = _run_rules(source, codes, project)
    if not findings and not names_codes(text):
        return Checked((), (), tuple(faults))
    comments = find_comments(text, noqa=noqa)
    left, used = _silence(findings, comments)
    unused = ((comment, _why_unused(comment, used.get(comment, set()), codes)) for comment in comments)
    return Checked(tuple(_each_place_once(left)), tuple(each for each in unused if each[1]), tuple(faults))


def _run_rules(
    source: Source, codes: frozenset[str], project: Project
) -> tuple[list[Finding], list[tuple[str, Exception]]]:
    from .inference.file_facts import FileFacts
    from .rules import all_rules

    text = source.text
    facts: FileFacts | None = None
    findings: list[Finding] = []
    faults: list[tuple[str, Exception]] = []
    for rule in all_rules():
        if rule.CODE not in codes or not any(word in text for word in rule.NEEDS):
            continue
        try:
            if facts is None:
                facts = FileFacts(source, project)
                if facts.is_of_another_framework:
                    break
            findings += rule.check(facts)
        except (RecursionError, MemoryError) as error:
            raise NotReadError("is nested too deeply to be checked") from error
        except Exception as error:  # noqa: BLE001  # one rule's mistake must not hide what the others find
            faults.append((rule.CODE, error))
    if facts is not None:  # freed at once: the garbage collector takes as long for it as the rules
        facts.release()
        project.trim()
    findings.sort(key=lambda each: (each.line, each.column, each.code))
    return findings, faults


def _silence(
    findings: Iterable[Finding], comments: Iterable[SilencingComment]
) -> tuple[list[Finding], dict[SilencingComment, set[str]]]:
    """The findings that are left, and the codes of those that each comment has silenced, at any of their lines."""
    by_line: dict[int, list[SilencingComment]] = {}
    for comment in comments:
        by_line.setdefault(comment.line, []).append(comment)
    left = []
    used: dict[SilencingComment, set[str]] = {}
    for finding in findings:
        lines = {*range(finding.line, finding.end_line + 1)}
        others = {
            line for _, line in finding.also
        } - lines  # a comment there that names no code is for something else
        silencing = [c for line in lines for c in by_line.get(line, ()) if c.silences(finding.code)]
        silencing += [
            c
            for line in others
            for c in by_line.get(line, ())
            if c.silences(finding.code) and (c.codes or not c.is_noqa)
        ]
        for comment in silencing:
            used.setdefault(comment, set()).add(finding.code)
        if not silencing:
            left.append(finding)
    return left, used


def _each_place_once(findings: list[Finding]) -> Iterator[Finding]:
    """Without those that give way to another whose fix changes the same characters: it mends both."""
    from .rules import gives_way

    changed = {code: _changed(findings, gives_way(code)) for code in {each.code for each in findings}}
    for finding in findings:
        starts, ends = changed[finding.code]
        edits = finding.fix.edits if finding.fix is not None else ()
        if not any((at := bisect.bisect_left(starts, _end(each))) and ends[at - 1] > each.start for each in edits):
            yield finding


def _changed(findings: Iterable[Finding], codes: frozenset[str]) -> tuple[list[int], list[int]]:
    """Where the fixes of some codes change characters: where each edit starts, and the furthest end up to there."""
    edits = [each for finding in findings if finding.fix and finding.code in codes for each in finding.fix.edits]
    spans = sorted((each.start, _end(each)) for each in edits)
    return [start for start, _ in spans], list(itertools.accumulate((end for _, end in spans), max))


def _end(edit: Edit) -> int:
    """Where the characters of an edit end: what is inserted meets what is inserted or changed there."""
    return max(edit.end, edit.start + 1)


def _why_unused(comment: SilencingComment, silenced: set[str], codes: frozenset[str]) -> str:
    """What is said of a comment of which all or a part is of no use; nothing where that cannot be told.

    Args:
        comment: any.
        silenced: the codes of what it has silenced.
        codes: that were looked for: of others nobody knows whether they would be found. Codes in `# noqa` that are
            unknown may be another tool's.
    """
    if comment.is_malformed:
        return "this comment is not of the form `ignore[TC101]` and silences nothing"
    if not comment.codes:
        return "" if comment.is_noqa or silenced or not codes >= DEFAULT_CODES else _OF_NO_USE
    known = [code.code for code in CODES]
    unknown = [] if comment.is_noqa else [each for each in comment.codes if not _any_begins(known, each)]
    looked_for = [
        each for each in comment.codes if (each in codes if comment.is_noqa else _any_begins(codes, each))
    ]
    idle = [each for each in looked_for if not _any_begins(silenced, each)]
    if len(idle) == len(comment.codes):
        return _OF_NO_USE
    return "; ".join(
        [
            *(f"no code begins with {each}" for each in unknown),
            *(f"{each} in this comment silences nothing" for each in idle),
        ]
    )


def _any_begins(codes: Iterable[str], start: str) -> bool:
    return any(code.startswith(start) for code in codes)
