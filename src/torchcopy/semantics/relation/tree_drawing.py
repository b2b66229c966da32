"""The relation of two containers as a picture: a row for each path, a link where memory is shared."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..._tensors import format_bytes
from .drawing import quoted
from .svg_sheet import MARGIN, WIDTH, Sheet, shortened
from .tree_wording import kind_of

if TYPE_CHECKING:
    from .pair import Memory, Relation
    from .tree import TreeRelation

_ROWS_DRAWN = 24
_ROWS_IN_TABLE = 50
_CROSSINGS_DRAWN = 12
_LEFT, _RIGHT = 470, 590
_ROW_HEIGHT = 24


@dataclass(frozen=True, slots=True)
class _Row:
    path_a: str | None
    path_b: str | None
    relation: Relation | None = None

    @property
    def path(self) -> str:
        return (self.path_b if self.path_a is None else self.path_a) or ""


def _rows(t: TreeRelation) -> list[_Row]:
    return [
        *(_Row(pair.path, pair.path_b, pair.relation) for pair in t.pairs),
        *(_Row(path, None) for path in t.only_a),
        *(_Row(None, path) for path in t.only_b),
    ]


def _crossing_rows(t: TreeRelation, rows: list[_Row]) -> Iterator[tuple[int, int, Memory]]:
    """(row in a, row in b, memory) for tensors at different paths that share bytes, as far as both are drawn."""
    in_a = {row.path_a: k for k, row in enumerate(rows)}
    in_b = {row.path_b: k for k, row in enumerate(rows)}
    for crossing in t.crossings:
        for path_a in crossing.paths_a:
            for path_b in crossing.paths_b:
                k, m = in_a.get(path_a), in_b.get(path_b)
                if k is not None and m is not None and k != m:
                    yield k, m, crossing.memory


def tree_svg(t: TreeRelation) -> str:
    """The picture of `t`."""
    rows = _rows(t)
    shown = rows[:_ROWS_DRAWN]
    sheet = Sheet(str(t))
    sheet.prose(str(t))
    if rows:
        for x, side in ((_LEFT, "a"), (_RIGHT, "b")):
            sheet.text(x, sheet.below + 10, side, colour=side, anchor="middle")
        sheet.below += 22
    middles = [sheet.below + 8 + k * _ROW_HEIGHT for k in range(len(shown))]
    for row, middle in zip(shown, middles, strict=True):
        _draw_row(sheet, row, middle)
    for count, (k, m, memory) in enumerate(_crossing_rows(t, shown)):
        if count == _CROSSINGS_DRAWN:
            break
        x, to, bend = _LEFT + 9, _RIGHT - 9, (_RIGHT - _LEFT) / 2
        sheet.curve(
            f"M{x} {middles[k]:g} C{x + bend:g} {middles[k]:g} {to - bend:g} {middles[m]:g} {to} {middles[m]:g}",
            "both",
            dashed=memory == "lazy",
        )
    sheet.below += len(shown) * _ROW_HEIGHT + 4
    if len(rows) > len(shown):
        sheet.text(MARGIN, sheet.below + 8, f"… and {len(rows) - len(shown):,} more", colour="quiet")
        sheet.below += 20
    return sheet.to_svg()


def _draw_row(sheet: Sheet, row: _Row, middle: float) -> None:
    sheet.text(MARGIN, middle + 4, shortened(row.path, 58))
    for x, there, side in ((_LEFT, row.path_a, "a"), (_RIGHT, row.path_b, "b")):
        if there is not None:
            sheet.dot(x, middle, side)
    r = row.relation
    if r is None:
        sheet.text(_RIGHT + 16, middle + 4, f"only {'b' if row.path_a is None else 'a'} has it", colour="quiet")
        return
    if r.memory != "separate":
        line = f"M{_LEFT + 9} {middle:g} H{_RIGHT - 9}"
        sheet.curve(line, "both", dashed=r.memory == "lazy", width=1.4 if r.memory == "overlap" else 3)
    sheet.text(_RIGHT + 16, middle + 4, _row_note(r)[: int((WIDTH - MARGIN - _RIGHT - 16) / 7.3)], colour="quiet")


_KINDS = {
    "object": "one tensor",
    "same": "same memory",
    "overlap": "overlap",
    "lazy": "lazy",
    "copy": "equal copy",
    "differ": "other values",
    "separate": "separate",
}


def _row_note(r: Relation) -> str:
    kind = _KINDS[kind_of(r)]
    return f"{kind}, {format_bytes(r.shared_bytes)}" if r.shared_bytes else kind


def tree_mermaid(t: TreeRelation) -> str:
    """The same as a Mermaid flowchart."""
    rows = _rows(t)
    shown = rows[:_ROWS_DRAWN]
    more = [f"… and {len(rows) - len(shown):,} more"] if len(rows) > len(shown) else []
    lines = ["flowchart LR"]
    for side in ("a", "b"):
        nodes = [(str(k), path) for k, row in enumerate(shown) if (path := _path_in(row, side)) is not None]
        nodes += [("more", words) for words in more]
        lines.append(f"    subgraph {side}[{quoted(side)}]")
        lines += [f"        {side}{key}[{quoted(words)}]" for key, words in nodes or [("none", "no tensors")]]
        lines.append("    end")
    for k, row in enumerate(shown):
        if row.relation is not None:
            lines.append(f"    a{k} {_mermaid_edge(row.relation)} b{k}")
    for count, (k, m, memory) in enumerate(_crossing_rows(t, shown)):
        if count == _CROSSINGS_DRAWN:
            break
        lines.append(f"    a{k} {'-.-' if memory == 'lazy' else '---'} b{m}")
    return "\n".join(lines) + "\n"


def _path_in(row: _Row, side: str) -> str | None:
    return row.path_a if side == "a" else row.path_b


def _mermaid_edge(r: Relation) -> str:
    label = quoted(_row_note(r))
    if r.memory == "separate":
        return "~~~"  # an invisible edge: it only keeps the row together
    return {"same": "===", "overlap": "---", "lazy": "-.-"}[r.memory] + f"|{label}|"


def tree_html(t: TreeRelation) -> str:
    """The sentences over a small table, deviating paths first, for a notebook."""
    kinds = Counter(kind_of(pair.relation) for pair in t.pairs)
    usual = max(kinds, key=lambda kind: kinds[kind], default=None)
    rows = sorted(_rows(t), key=lambda row: row.relation is not None and kind_of(row.relation) == usual)
    head = "".join(f"<th>{name}</th>" for name in ("path", "memory", "shared bytes", "graph", "same values"))
    body = "".join(map(_table_row, rows[:_ROWS_IN_TABLE]))
    more = f"<p>… and {len(rows) - _ROWS_IN_TABLE:,} more</p>" if len(rows) > _ROWS_IN_TABLE else ""
    return f"<div><p>{html.escape(str(t))}</p><table><tr>{head}</tr>{body}</table>{more}</div>"


def _table_row(row: _Row) -> str:
    r = row.relation
    if r is None:
        cells = [row.path, f"only in {'b' if row.path_a is None else 'a'}", "", "", ""]
    else:
        same_values = "unknown" if r.same_values is None else "yes" if r.same_values else "no"
        cells = [row.path, _KINDS[kind_of(r)], f"{r.shared_bytes:,}", r.graph, same_values]
    return f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"
