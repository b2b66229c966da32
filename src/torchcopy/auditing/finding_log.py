"""What the detectors have found so far: equal findings are one, with a count."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from .naming.sites import Sites
from .records import Finding, Place

Marked = tuple[str, int]
"""A role, and the number of the line that has it."""


@dataclasses.dataclass
class Found:
    """One finding that goes on happening."""

    code: str
    message: str
    places: tuple[Marked, ...]
    fix: str
    notes: tuple[str, ...] = ()
    count: int = 0
    bytes: int = 0
    seconds: float = 0.0


class FindingLog:
    """Findings by code and lines, as many as there are such lines, however long the program runs."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._found: dict[tuple[object, ...], Found] = {}

    def add(
        self,
        code: str,
        message: str,
        places: Sequence[Marked],
        *,
        fix: str,
        notes: Sequence[str] = (),
        size: int = 0,
        seconds: float = 0.0,
        count: int = 1,
    ) -> Found:
        """Notes a finding, or that one happened again. Returns it: what grows is brought up to date there."""
        places = tuple(place for place in places if place[1])
        key = (code, *places)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = Found(code, message, places, fix, tuple(notes))
        found.count += count
        found.bytes += size
        found.seconds += seconds
        return found

    def withdraw(self, found: Found) -> None:
        """Takes back what has turned out to be none."""
        for key, there in list(self._found.items()):
            if there is found:
                del self._found[key]

    def as_records(self) -> list[Finding]:
        """The findings, hazards first, then by bytes; those at the same lines are one."""
        merged: dict[tuple[object, ...], Finding] = {}
        for found in self._found.values():
            places = tuple(Place(role, self._sites.line(site)) for role, site in found.places)
            key = (found.code, *((p.role, p.line.path, p.line.line) for p in places))
            there = merged.get(key)
            merged[key] = Finding(
                code=found.code,
                message=found.message if there is None else there.message,
                places=places if there is None else there.places,
                count=found.count + (there.count if there else 0),
                bytes=found.bytes + (there.bytes if there else 0),
                seconds=found.seconds + (there.seconds if there else 0.0),
                notes=found.notes if there is None else there.notes,
                fix=found.fix,
            )
        return sorted(merged.values(), key=lambda f: (f.code[:3], -f.bytes, f.code, f.path, f.line))
