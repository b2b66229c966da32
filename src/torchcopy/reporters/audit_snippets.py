"""The source lines of a finding, underlined as a compiler does it."""

from __future__ import annotations

import ast
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence

from ..auditing.records import Place, SourceLine
from .audit_source_view import visible
from .clipped_lines import Span, blank, clip, columns, without_tabs

_MOST_COLUMNS = 240  # of a line; generated code has longer ones


@dataclasses.dataclass(frozen=True)
class Part:
    """What a part of a line did.

    Attributes:
        start: of the part in the text of the line, from 0 on.
        end: behind its last character; as `start` where nothing is underlined.
        roles: what it did, in the order of time.
        through: the function of a library that did it for the line; empty where it was none.
    """

    start: int
    end: int
    roles: tuple[str, ...]
    through: str

    @property
    def role(self) -> str:
        """What it did, in one phrase."""
        return "; ".join(self.roles)

    @property
    def by(self) -> str:
        """Which function of a library did it, as it follows the role; a backward and a copy go without saying."""
        if not self.through or self.through.startswith(("torch.autograd.", "copy.")):
            return ""
        return ", by `optimizer.step`" if self.through.startswith("torch.optim.") else f", in {self.through}"


@dataclasses.dataclass(frozen=True)
class Snippet:
    """One line, and what its parts did.

    Attributes:
        path: of the file.
        number: of the line.
        anchor: of the line in the page, None where it is not in it.
        function: that the line belongs to; empty outside of any.
        text: of the line; empty where there is no source.
        parts: what is underlined, in the order of time.
    """

    path: str
    number: int
    anchor: str | None
    function: str
    text: str
    parts: tuple[Part, ...]

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """The text piece by piece, each with whether it is underlined."""
        underlined = {at for part in self.parts for at in range(part.start, part.end)}
        edges = {0, len(self.text)} | {edge for part in self.parts for edge in (part.start, part.end)}
        ordered = sorted(edges)
        for start, end in itertools.pairwise(ordered):
            yield self.text[start:end], start in underlined

    def indent(self, part: Part) -> str:
        """White space as wide as what stands left of a part."""
        return blank(self.text[: part.start])

    def carets(self, part: Part) -> str:
        """Carets below a part; empty where nothing is underlined."""
        return "^" * columns(self.text[part.start : part.end])

    def clipped(self, room: int) -> Snippet:
        """The same in at most `room` columns, without tabs."""
        return self._with(*without_tabs(self.text, self._spans()))._clipped(room)

    def role_indent(self, part: Part, room: int) -> str | None:
        """White space before a role that stands below the carets; None where there is room beside them."""
        role = columns(part.role + part.by)
        begins = columns(self.indent(part))
        if begins + columns(self.carets(part)) + 1 + role <= room:
            return None
        return " " * max(0, min(begins, room - role))

    def _clipped(self, room: int) -> Snippet:
        if columns(self.text) <= room:
            return self
        spans = self._spans()
        first, last = min((start for start, _ in spans), default=0), max((end for _, end in spans), default=0)
        if columns(self.text[first:last]) > room - 2:  # the method says more than what it is called of
            spans = [_method_call(self.text, span) for span in spans]
        return self._with(*clip(self.text, spans, room))

    def _spans(self) -> list[Span]:
        return [(part.start, part.end) for part in self.parts]

    def _with(self, text: str, spans: Sequence[Span]) -> Snippet:
        parts = [
            dataclasses.replace(part, start=start, end=end)
            for part, (start, end) in zip(self.parts, spans, strict=True)
        ]
        return dataclasses.replace(self, text=text, parts=tuple(parts))


def snippets(
    places: Sequence[Place], anchor: Callable[[SourceLine], str | None], room: int = _MOST_COLUMNS
) -> tuple[Snippet, ...]:
    """The lines of `places`, each once, in the order of time, without the indentation that they share.

    Args:
        places: of a finding.
        anchor: tells where in the page a line is.
        room: columns that a line may take.
    """
    indents = [_indent(place.line.text) for place in places if place.line.text.strip()]
    shared = min(map(len, indents), default=0)
    if len({indent[:shared] for indent in indents}) > 1:  # tabs here, spaces there
        shared = 0
    by_line: dict[tuple[str, int], list[Place]] = {}
    last = None
    for place in places:
        key = place.line.path, place.line.line
        if key in by_line and key != last:  # another line was in between
            place = dataclasses.replace(place, role=f"later {place.role}")
        by_line.setdefault(key, []).append(place)
        last = key
    return tuple(_snippet(of_line, anchor(of_line[0].line), shared)._clipped(room) for of_line in by_line.values())


def _snippet(places: Sequence[Place], anchor: str | None, shared: int) -> Snippet:
    line = places[0].line
    text = visible(line.text)
    parts: dict[Span, Part] = {}
    for place in places:
        start, end = span = _underlined(text, place.line.column, place.line.end_column)
        before = parts.get(span, Part(start, end, (), ""))
        roles = before.roles if place.role in before.roles else (*before.roles, place.role)
        parts[span] = Part(start, end, roles, before.through or place.line.through)
    left_out = min([shared, *(start for start, _ in parts)])
    whole = Snippet(
        path=line.path,
        number=line.line,
        anchor=anchor,
        function="" if line.function == "<module>" else line.function,
        text=text,
        parts=tuple(parts.values()),
    )
    return whole._with(text[left_out:], [(start - left_out, end - left_out) for start, end in parts])


def _method_call(text: str, span: Span) -> Span:
    """Where the last method of a chain of calls is: `.clone()` of `x.to(device).clone()`; else the whole span."""
    start, end = span
    source = text[start:end].encode("utf-8")
    try:
        call = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError):
        return span
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return span
    calls = [node for node in ast.walk(call.func.value) if isinstance(node, ast.Call)]
    if not calls or call.func.value.end_lineno != 1:  # `nn.functional.relu(x)` is no chain
        return span
    return start + len(source[: call.func.value.end_col_offset].decode("utf-8")), end


def _indent(text: str) -> str:
    return text[: len(text) - len(text.lstrip(" \t"))]


def _underlined(text: str, column: int | None, end_column: int | None) -> Span:
    """Where the expression begins and ends; both where the line does where that is not known."""
    unknown = len(_indent(text))
    if column is None or not 1 <= column <= len(text):
        return unknown, unknown
    end = len(text.rstrip()) if end_column is None else min(end_column - 1, len(text))
    return (column - 1, end) if end >= column else (unknown, unknown)
