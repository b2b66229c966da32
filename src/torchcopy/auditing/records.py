"""What an audit found, as records: findings, and the table of all copies by call site."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, get_args

from .._errors import InputError

Status = Literal["needed", "redundant", "repeated", "unknown"]
Kind = Literal["clone", "conversion", "transfer", "layout", "into", "serialisation"]
STATUSES: tuple[Status, ...] = get_args(Status)
KINDS: tuple[Kind, ...] = get_args(Kind)
SCHEMA = 1


@dataclasses.dataclass(frozen=True)
class SourceLine:
    """A line of the audited program.

    Attributes:
        path: of the file, relative to the working directory where it lies below it.
        line: from 1 on.
        column: from 1 on, where the expression begins; None where that is not known.
        end_column: behind the last character of the expression; None where it ends on another line.
        text: the line as it stands in the file, without its newline; empty where there is no source.
        function: the name of the function that it belongs to, `<module>` outside of any.
        through: the function of a library that the line had called, if the library did it: `torch.nn.functional.…`.
    """

    path: str
    line: int
    column: int | None = None
    end_column: int | None = None
    text: str = ""
    function: str = ""
    through: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclasses.dataclass(frozen=True)
class Place:
    """A line that has a part in a finding.

    Attributes:
        role: which part, in a few words that go below the carets: `taken here`, `overwritten by optimizer.step`.
        line: where.
    """

    role: str
    line: SourceLine


@dataclasses.dataclass(frozen=True)
class Finding:
    """One mistake, however often it happened.

    Attributes:
        code: of the kind of mistake, such as `TC101`; `torchcopy explain TC101` tells the story.
        message: what happened, one sentence.
        places: the lines that have a part in it, in the order of time; the first is where the finding is reported.
        count: how often it happened.
        bytes: how much memory was wasted or put at risk, all times together; 0 where that is no question of bytes.
        seconds: how long what was not needed took; 0.0 where that is no question of time.
        notes: what else is known: numbers, which writes were looked for.
        fix: what to write instead.
    """

    code: str
    message: str
    places: tuple[Place, ...]
    count: int = 1
    bytes: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    fix: str = ""

    @property
    def path(self) -> str:
        """The file that the finding is reported in."""
        return self.places[0].line.path if self.places else ""

    @property
    def line(self) -> int:
        """The line that the finding is reported at."""
        return self.places[0].line.line if self.places else 0

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return {**dataclasses.asdict(self), "path": self.path, "line": self.line}


@dataclasses.dataclass(frozen=True)
class CopySite:
    """All copies of one kind that one line has made.

    Attributes:
        line: which line.
        kind: `clone`: the same again; `conversion`: another dtype; `transfer`: another device; `layout`: another
            order in memory; `into`: written into a tensor that was there; `serialisation`: into a file or a pickle.
        count: how many.
        bytes: that were written, all together.
        seconds: that they took.
        counts: how many were needed, redundant, repeated or could not be told, by status.
        status_bytes: the same in bytes.
    """

    line: SourceLine
    kind: Kind
    count: int
    bytes: int
    seconds: float
    counts: Mapping[Status, int]
    status_bytes: Mapping[Status, int]

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return {
            **dataclasses.asdict(self.line),
            "kind": self.kind,
            "count": self.count,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "counts": dict(self.counts),
            "status_bytes": dict(self.status_bytes),
        }


@dataclasses.dataclass(frozen=True)
class Report:
    """What an audit found.

    Attributes:
        findings: hazards first, then waste by bytes.
        copies: a table of all copies by line and kind, most bytes first.
        opaque: what ran and could not be looked into, with how often: compiled regions.
        unused_ignores: comments that silence nothing.
        timeline: seconds since the audit began, and bytes copied from the moment before until then.
        sources: the text of each file that has a line in the report, by its path.
        program: what was audited.
        seconds: how long the audit ran.
        steps: how many optimizer steps were taken meanwhile.
        audited_steps: how many of them were audited; all of them without `first_steps`.
        ended_by: the exception that ended the program, if one did.
        versions: of torch, torchcopy and Python.
    """

    findings: tuple[Finding, ...]
    copies: tuple[CopySite, ...]
    opaque: Mapping[str, int] = dataclasses.field(default_factory=dict)
    unused_ignores: tuple[SourceLine, ...] = ()
    timeline: tuple[tuple[float, int], ...] = ()
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)
    program: str = ""
    seconds: float = 0.0
    steps: int = 0
    audited_steps: int = 0
    ended_by: str = ""
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def hazards(self) -> tuple[Finding, ...]:
        """The findings that make results wrong."""
        return tuple(f for f in self.findings if f.code.startswith("TC1"))

    @property
    def waste(self) -> tuple[Finding, ...]:
        """The findings that cost time and memory."""
        return tuple(f for f in self.findings if f.code.startswith("TC2"))

    def status_bytes(self) -> dict[Status, int]:
        """Bytes of all copies, by whether they were needed."""
        return {status: sum(site.status_bytes.get(status, 0) for site in self.copies) for status in STATUSES}

    def __str__(self) -> str:
        from .._reports import audit_as_text

        return audit_as_text(self)

    def save(self, path: str | Path) -> None:
        """Writes the report: as a page where the name ends in `.html`, as JSON where it ends in `.json`.

        Raises:
            InputError: it ends in something else, or the file cannot be written.
        """
        from .._reports import save_audit

        save_audit(self, Path(path))

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return {
            "schema": SCHEMA,
            "program": self.program,
            "findings": [f.to_dict() for f in self.findings],
            "copies": [site.to_dict() for site in self.copies],
            "opaque": dict(self.opaque),
            "unused_ignores": [dataclasses.asdict(line) for line in self.unused_ignores],
            "timeline": [list(point) for point in self.timeline],
            "sources": dict(self.sources),
            "seconds": self.seconds,
            "steps": self.steps,
            "audited_steps": self.audited_steps,
            "ended_by": self.ended_by,
            "versions": dict(self.versions),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The record that `to_dict` wrote.

        Raises:
            InputError: it is none, or of another schema.
        """
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            raise InputError(f"this is no audit report of schema {SCHEMA}")
        try:
            return cls(
                findings=tuple(map(_finding, data["findings"])),
                copies=tuple(map(_copy_site, data["copies"])),
                opaque=dict(data["opaque"]),
                unused_ignores=tuple(SourceLine(**line) for line in data["unused_ignores"]),
                timeline=tuple((float(at), int(size)) for at, size in data["timeline"]),
                sources=dict(data["sources"]),
                program=data["program"],
                seconds=data["seconds"],
                steps=data["steps"],
                audited_steps=data["audited_steps"],
                ended_by=data["ended_by"],
                versions=dict(data["versions"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the audit report is damaged: {type(error).__name__}: {error}") from error

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The report that was saved as JSON.

        Raises:
            InputError: the file cannot be read, or is no audit report.
        """
        import json

        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read the audit report {str(path)!r}: {error}") from error
        return cls.from_dict(data)


def _finding(data: Mapping[str, Any]) -> Finding:
    places = tuple(Place(each["role"], SourceLine(**each["line"])) for each in data["places"])
    rest = {name: data[name] for name in ("code", "message", "count", "bytes", "seconds", "fix")}
    return Finding(places=places, notes=tuple(data["notes"]), **rest)


def _copy_site(data: Mapping[str, Any]) -> CopySite:
    names = [field.name for field in dataclasses.fields(SourceLine)]
    rest = {name: data[name] for name in ("kind", "count", "bytes", "seconds", "counts", "status_bytes")}
    return CopySite(line=SourceLine(**{name: data[name] for name in names}), **rest)
