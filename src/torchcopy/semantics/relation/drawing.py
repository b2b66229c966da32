"""The relation of two tensors as a picture: storages with the bytes that are viewed, and the way in the graph."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..._tensors import format_bytes
from .overlap import ByteSet
from .svg_sheet import MARGIN, WIDTH, Sheet, box_width
from .wording import gradient_clause

if TYPE_CHECKING:
    from .pair import Relation, Side
    from .parts import PartFacts

_BAR_LEFT, _BAR_WIDTH = 130, 400
_NOTE_LEFT = _BAR_LEFT + _BAR_WIDTH + 14
# Runs drawn one by one; more would be thinner than a pixel.
_RUNS_DRAWN = 130
# Nodes of a way drawn at each end of a long one.
_NODES_DRAWN = 3


def pair_svg(r: Relation) -> str:
    """The picture of `r`."""
    sheet = Sheet(str(r))
    sheet.prose(str(r))
    for side, facts in (("a", r.a), ("b", r.b)):
        sheet.bar(MARGIN, sheet.below, 12, 12, side)
        sheet.text(MARGIN + 20, sheet.below + 10, f"{side} · {facts.type} · {facts}")
        sheet.below += 20
    sheet.below += 12
    sheet.heading("MEMORY")
    for block in _blocks(r):
        _draw_block(sheet, r, block)
    if not r.same_tensor:
        sheet.heading("AUTOGRAD GRAPH")
        _draw_graph(sheet, r)
    return sheet.to_svg()


# --- storages -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Lane:
    """The bytes of one part of a tensor, as ranges within the block of memory."""

    side: Side
    label: str
    part: PartFacts
    ranges: tuple[tuple[int, int], ...]
    exact: bool


@dataclass(frozen=True, slots=True)
class _Block:
    """A piece of memory and who views it."""

    storages: tuple[int, ...]
    bytes: int
    lanes: tuple[_Lane, ...]


def _blocks(r: Relation) -> Iterator[_Block]:
    for number in dict.fromkeys(s.block for s in r.storages):
        inside = tuple(k for k, s in enumerate(r.storages) if s.block == number)
        size = max(r.storages[k].first_byte + r.storages[k].bytes for k in inside)
        lanes = tuple(
            _lane(side, part, r.storages[part.storage].first_byte)
            for side, facts in _sides(r)
            for part in facts
            if part.storage in inside
        )
        yield _Block(inside, size, lanes)


def _sides(r: Relation) -> tuple[tuple[Side, tuple[PartFacts, ...]], ...]:
    return ("a", r.a.parts), ("b", r.b.parts)


def _lane(side: Side, part: PartFacts, storage_start: int) -> _Lane:
    start = storage_start + part.first_byte
    runs = ByteSet(0, part.levels).ranges(_RUNS_DRAWN)
    drawn = sum(stop - first for first, stop in runs)
    label = f"{side}.{part.name}" if part.name else side
    exact = drawn == ByteSet(0, part.levels).count if part.levels else True
    return _Lane(side, label, part, tuple((start + first, start + stop) for first, stop in runs), exact)


def _draw_block(sheet: Sheet, r: Relation, block: _Block) -> None:
    sheet.text(MARGIN, sheet.below + 10, _block_label(r, block))
    sheet.below += 20
    scale = _BAR_WIDTH / block.bytes if block.bytes else 0.0
    lazy = any(r.storages[k].lazy for k in block.storages)
    above = [lane for lane in block.lanes if lane.side == "a"]
    under = [lane for lane in block.lanes if lane.side == "b"]
    for lane in above:
        _draw_lane(sheet, lane, scale)
    top = sheet.below
    sheet.outline(_BAR_LEFT, top, _BAR_WIDTH, 22, "both" if lazy and r.shared_bytes else "quiet", dashed=lazy)
    common = tuple(_common(above, under)) if r.shared_bytes else ()
    faint = lazy or not all(lane.exact for lane in block.lanes)
    for first, stop in common:
        sheet.bar(_BAR_LEFT + first * scale, top + 4, (stop - first) * scale, 14, "both", faint=faint)
    if common:
        sheet.text(_BAR_LEFT - 8, top + 15, "both", colour="both", anchor="end")
    sheet.below += 28
    for lane in under:
        _draw_lane(sheet, lane, scale)
    sheet.text(_BAR_LEFT, sheet.below + 8, "0", colour="quiet")
    end = format_bytes(block.bytes)
    sheet.text(_BAR_LEFT + _BAR_WIDTH, sheet.below + 8, end, colour="quiet", anchor="end")
    sheet.below += 30


def _draw_lane(sheet: Sheet, lane: _Lane, scale: float) -> None:
    sheet.text(_BAR_LEFT - 8, sheet.below + 11, lane.label[-15:], colour=lane.side, anchor="end")
    for first, stop in lane.ranges:
        width = (stop - first) * scale
        sheet.bar(_BAR_LEFT + first * scale, sheet.below, width, 14, lane.side, faint=not lane.exact)
    sheet.text(_NOTE_LEFT, sheet.below + 11, _lane_note(lane.part), colour="quiet")
    sheet.below += 20


def _lane_note(part: PartFacts) -> str:
    if not part.levels:
        return "no bytes"
    count = format_bytes(ByteSet(0, part.levels).count)
    if len(part.levels) == 1:
        return f"{count} from byte {part.first_byte:,}"
    return f"{count} in runs of {format_bytes(part.levels[-1][0])}"


def _block_label(r: Relation, block: _Block) -> str:
    storages = [r.storages[k] for k in block.storages]
    size = format_bytes(block.bytes) if block.bytes else "no bytes"
    if len(storages) == 1:
        lazy = " · copy-on-write, shared with others" if storages[0].lazy else ""
        return f"one storage · {size} · {storages[0].device}{lazy}"
    until = " until the first write" if any(s.lazy for s in storages) else ""
    return f"{len(storages)} storages on one memory{until} · {size} · {storages[0].device}"


def _common(a: list[_Lane], b: list[_Lane]) -> Iterator[tuple[int, int]]:
    """The ranges that a lane of a and a lane of b have in common, as far as they are drawn."""
    for first_a, stop_a in (each for lane in a for each in lane.ranges):
        for first_b, stop_b in (each for lane in b for each in lane.ranges):
            if max(first_a, first_b) < min(stop_a, stop_b):
                yield max(first_a, first_b), min(stop_a, stop_b)


# --- the graph ------------------------------------------------------------------------------------------------


def _draw_graph(sheet: Sheet, r: Relation) -> None:
    middle = sheet.below + 14
    if r.graph == "none":
        right = sheet.box(MARGIN, middle, "a", "a", filled=True)
        sheet.text(right + 14, middle + 4, "no path", colour="quiet")
        sheet.box(right + 80, middle, "b", "b", filled=True)
        sheet.below += 42
    elif r.graph == "common" and r.common_at is not None:
        to_a, to_b = r.graph_path[: r.common_at][::-1], r.graph_path[r.common_at + 1 :]
        _draw_fork(sheet, r.graph_path[r.common_at], to_a, to_b)
    else:
        ends: tuple[Side, Side] = ("a", "b") if r.graph == "a→b" else ("b", "a")
        right = sheet.box(MARGIN, middle, ends[0], ends[0], filled=True)
        _draw_way(sheet, right, middle, MARGIN + 40, r.graph_path, ends[1])
    sheet.text(MARGIN, sheet.below + 8, _graph_note(r), colour="quiet")
    sheet.below += 24


def _draw_fork(sheet: Sheet, common: str, to_a: tuple[str, ...], to_b: tuple[str, ...]) -> None:
    """The common node on the left, and from it the ways to a and to b, one below the other."""
    left = MARGIN + box_width(common) + 36
    start = sheet.below + 14
    fork_right = sheet.box(MARGIN, start, common, "both")
    for side, nodes in (("a", to_a), ("b", to_b)):
        middle = sheet.below + 14
        _draw_way(sheet, fork_right, middle, left, nodes, side, from_y=start)


def _draw_way(
    sheet: Sheet,
    x: float,
    middle: float,
    left: float,
    nodes: tuple[str, ...],
    end: str,
    from_y: float | None = None,
) -> None:
    """Boxes from `x` on, an arrow before each; rows after the first begin at `left`."""
    from_y = middle if from_y is None else from_y
    for words in (*drawn_nodes(nodes), end):
        to = max(x + 34, left)
        if to + box_width(words) > WIDTH - MARGIN:
            middle += 36
            x, to, from_y = left - 34, left, middle
        sheet.arrow(x + 3, from_y, to - 2, middle)
        is_end = words == end
        x = sheet.box(to, middle, words, end if is_end else "quiet", filled=is_end)
        from_y = middle
    sheet.below = middle + 28


def drawn_nodes(nodes: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes that are drawn: those at both ends of a long way, and how many are left out."""
    if len(nodes) <= 2 * _NODES_DRAWN + 1:
        return nodes
    left_out = len(nodes) - 2 * _NODES_DRAWN
    return (*nodes[:_NODES_DRAWN], f"… {left_out:,} more …", *nodes[-_NODES_DRAWN:])


def _graph_note(r: Relation) -> str:
    if r.graph == "none":
        return gradient_clause(r)
    return "arrows: what was computed from what; gradients flow the other way"


# --- Mermaid --------------------------------------------------------------------------------------------------


def pair_mermaid(r: Relation) -> str:
    """The same as a Mermaid flowchart."""
    lines = ["flowchart LR"]
    lines += [f"    {side}[{quoted(f'{side}: {facts}')}]" for side, facts in (("a", r.a), ("b", r.b))]
    for block in _blocks(r):
        several = len(block.storages) > 1
        if several:
            label = _block_label(r, block)
            lines.append(f"    subgraph m{block.storages[0]}[{quoted(label)}]")
        for k in block.storages:
            storage = r.storages[k]
            lazy = ", copy-on-write" if storage.lazy else ""
            label = quoted(f"storage: {format_bytes(storage.bytes)} {storage.device}{lazy}")
            lines.append(f"    {'    ' if several else ''}s{k}[({label})]")
        if several:
            lines.append("    end")
        for lane in block.lanes:
            name = f"{lane.part.name}: " if lane.part.name else ""
            edge = "-.-" if r.storages[lane.part.storage].lazy else "---"
            label = quoted(f"{name}{_lane_note(lane.part)}")
            lines.append(f"    {lane.side} {edge}|{label}| s{lane.part.storage}")
    return "\n".join([*lines, *_mermaid_graph(r)]) + "\n"


def _mermaid_graph(r: Relation) -> Iterator[str]:
    if r.graph == "none" or r.same_tensor:
        return
    if r.graph == "common" and r.common_at is not None:
        yield f"    common([{quoted(r.graph_path[r.common_at])}])"
        yield from _mermaid_way("common", r.graph_path[: r.common_at][::-1], "a")
        yield from _mermaid_way("common", r.graph_path[r.common_at + 1 :], "b")
        return
    start, end = ("a", "b") if r.graph == "a→b" else ("b", "a")
    yield from _mermaid_way(start, r.graph_path, end)


def _mermaid_way(start: str, nodes: tuple[str, ...], end: str) -> Iterator[str]:
    at = start
    for k, name in enumerate(drawn_nodes(nodes)):
        yield f"    {at} --> {end}{k}([{quoted(name)}])"
        at = f"{end}{k}"
    yield f"    {at} --> {end}"


def quoted(words: str) -> str:
    """`words` as a Mermaid label: whatever it could take for syntax or HTML is written as an entity."""
    safe = (c if c.isalnum() or c in " .,:;_-()/[]'*+=→…·" else f"#{ord(c)};" for c in words)
    return f'"{"".join(safe)}"'


# --- HTML -----------------------------------------------------------------------------------------------------


def pair_html(r: Relation) -> str:
    """The picture over a small table, for a notebook."""
    way = " → ".join(drawn_nodes(r.graph_path))
    rows = {
        "memory": f"{r.memory}, {r.shared_bytes:,} bytes shared",
        "same storage": _answer(r.same_storage),
        "same version counter": _answer(r.shares_version_counter),
        "graph": f"{r.graph}: {way}" if way else r.graph,
        "same values": _answer(r.same_values),
    }
    cells = (f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows.items())
    return f"<div>{pair_svg(r)}<table>{''.join(cells)}</table></div>"


def _answer(value: bool | None) -> str:
    return "unknown" if value is None else "yes" if value else "no"
