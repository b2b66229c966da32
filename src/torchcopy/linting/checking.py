"""One source: which rules are run on it, and which comments silence what they find."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Iterable, Iterator

from ..semantics.codes.comments import SilencingComment, find_comments, names_codes
from .findings import Finding
from .project import Project
from .reading import NotReadError, explain_syntax_error
from .settings import DEFAULT_CODES
from .source import Source


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """What was found in one source.

    Attributes:
        findings: that no comment silences, in the order of lines.
        unused: the comments that silence nothing.
        faults: codes whose rule has failed, each with the exception.
    """

    findings: tuple[Finding, ...] = ()
    unused: tuple[SilencingComment, ...] = ()
    faults: tuple[tuple[str, Exception], ...] = ()


def check(source: Source, codes: frozenset[str], project: Project) -> Checked:
    """What the rules for `codes` find in a source.

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
    comments = find_comments(text, noqa=True)
    left, used = _silence(findings, comments)
    unused = tuple(each for each in comments if each not in used and _is_ours(each, codes))
    return Checked(tuple(_each_place_once(left)), unused, tuple(faults))


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
            findings += rule.check(facts)
        except (RecursionError, MemoryError) as error:
            raise NotReadError("is nested too deeply to be checked") from error
        except Exception as error:  # noqa: BLE001  # one rule's mistake must not hide what the others find
            faults.append((rule.CODE, error))
    if facts is not None:  # freed at once: the garbage collector takes as long for it as the rules
        facts.release()
    findings.sort(key=lambda each: (each.line, each.column, each.code))
    return findings, faults


def _silence(
    findings: Iterable[Finding], comments: Iterable[SilencingComment]
) -> tuple[list[Finding], set[SilencingComment]]:
    """The findings that are left, and the comments that have silenced one. A comment may be at any of its lines."""
    by_line: dict[int, list[SilencingComment]] = {}
    for comment in comments:
        by_line.setdefault(comment.line, []).append(comment)
    left = []
    used: set[SilencingComment] = set()
    for finding in findings:
        lines = {*range(finding.line, finding.end_line + 1), *(line for _, line in finding.also)}
        silencing = [c for line in lines for c in by_line.get(line, ()) if c.silences(finding.code)]
        used.update(silencing)
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
        if not any((at := bisect.bisect_left(starts, each.end)) and ends[at - 1] > each.start for each in edits):
            yield finding


def _changed(findings: Iterable[Finding], codes: frozenset[str]) -> tuple[list[int], list[int]]:
    """Where the fixes of some codes change characters: where each edit starts, and the furthest end up to there."""
    edits = [each for finding in findings if finding.fix and finding.code in codes for each in finding.fix.edits]
    spans = sorted((each.start, each.end) for each in edits)
    return [start for start, _ in spans], list(itertools.accumulate((end for _, end in spans), max))


def _is_ours(comment: SilencingComment, codes: frozenset[str]) -> bool:
    """Whether it can be told that a comment is of no use: all that it names was looked for, and by nobody else."""
    if comment.is_noqa:
        return bool(comment.codes) and all(each in codes for each in comment.codes)
    if not comment.codes:
        return codes >= DEFAULT_CODES
    return all(any(code.startswith(each) for code in codes) for each in comment.codes)
