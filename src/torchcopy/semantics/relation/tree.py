"""The relation of two models, state_dicts or other containers: path by path, and as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from . import tree_drawing, tree_wording
from .graph_path import GraphReader
from .overlap import ByteSet
from .pair import Memory, Relation, memory_of, plain_data, relate_tensors
from .parts import Part, parts_of, shared_bytes, viewed_bytes
from .paths import PathTensor, tensors_in

# Pairs of tensors at different paths that are looked at for common bytes.
_MAX_CROSSINGS = 10_000


@dataclass(frozen=True, slots=True)
class PathRelation:
    """The tensors that a and b have at one path.

    Attributes:
        path: where, as a writes it: `['optimizer'].state[3]['exp_avg']`.
        path_b: the same as b writes it; different where a module is related to a state_dict.
        relation: what the two have to do with each other.
    """

    path: str
    path_b: str
    relation: Relation


@dataclass(frozen=True, slots=True)
class Crossing:
    """Memory that a and b share between different paths, as tied weights do.

    Attributes:
        paths_a: the paths in a that view just these bytes.
        paths_b: the same in b.
        memory: how the bytes are shared.
        shared_bytes: how many.
    """

    paths_a: tuple[str, ...]
    paths_b: tuple[str, ...]
    memory: Memory
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class TreeSummary:
    """A tree relation in numbers.

    Attributes:
        pairs: paths that both have.
        same: pairs with exactly the same bytes.
        overlap: pairs with some common bytes.
        lazy: pairs that share bytes until the first write.
        separate: pairs without a common byte.
        only_a: paths that only a has.
        only_b: paths that only b has.
        crossings: groups of different paths that share bytes.
        shared_bytes: bytes that both a and b view, at whatever paths; each counted once.
        a_bytes: bytes that a views, each counted once.
        b_bytes: bytes that b views, each counted once.
        all_same_values: whether all pairs are numerically equal; None where that was not or could not be found
            out, and where there is no pair.
    """

    pairs: int
    same: int
    overlap: int
    lazy: int
    separate: int
    only_a: int
    only_b: int
    crossings: int
    shared_bytes: int
    a_bytes: int
    b_bytes: int
    all_same_values: bool | None


@dataclass(frozen=True, repr=False)
class TreeRelation:
    """What two models, state_dicts or other containers have to do with each other.

    Prints as a few sentences. Holds facts only: no tensor is kept alive by it.

    Attributes:
        summary: the whole in numbers.
        pairs: the tensors at the paths that both have, in a's order.
        only_a: paths that only a has.
        only_b: paths that only b has.
        crossings: memory shared between different paths.
        crossings_complete: False where there were too many overlapping tensors to look at all of them.
        same_object: whether a and b are one Python object.
    """

    summary: TreeSummary
    pairs: tuple[PathRelation, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    crossings: tuple[Crossing, ...]
    crossings_complete: bool
    same_object: bool

    @property
    def shared_bytes(self) -> int:
        """Bytes that both view, at whatever paths; each counted once."""
        return self.summary.shared_bytes

    def __getitem__(self, path: str) -> Relation:
        """The relation at `path`, written as in `pairs`."""
        for pair in self.pairs:
            if pair.path == path:
                return pair.relation
        raise KeyError(path)

    def __str__(self) -> str:
        return tree_wording.tree_text(self)

    def __repr__(self) -> str:
        s = self.summary
        return (
            f"<TreeRelation same={s.same} overlap={s.overlap} lazy={s.lazy} separate={s.separate} "
            f"shared_bytes={s.shared_bytes} all_same_values={s.all_same_values}: {self}>"
        )

    def _repr_html_(self) -> str:
        return tree_drawing.tree_html(self)

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON, with the sentences it prints as under `text`."""
        return {"text": str(self), **plain_data(self)}

    def to_mermaid(self) -> str:
        """The paths of both sides and what they share, as a Mermaid flowchart."""
        return tree_drawing.tree_mermaid(self)

    def to_svg(self) -> str:
        """The paths of both sides and what they share, as an SVG picture."""
        return tree_drawing.tree_svg(self)


@dataclass(frozen=True, slots=True)
class _Leaf:
    found: PathTensor
    parts: tuple[Part, ...]


def relate_containers(a: object, b: object, *, values: bool) -> TreeRelation:
    """The relation of two containers. To be called outside of the caller's modes."""
    leaves_a, leaves_b = _leaves(a, "a"), _leaves(b, "b")
    reader = GraphReader()
    pairs = tuple(
        PathRelation(leaf.found.path, leaves_b[key].found.path, _relate(leaf, leaves_b[key], values, reader))
        for key, leaf in leaves_a.items()
        if key in leaves_b
    )
    only_a = tuple(leaf.found.path for key, leaf in leaves_a.items() if key not in leaves_b)
    only_b = tuple(leaf.found.path for key, leaf in leaves_b.items() if key not in leaves_a)
    crossings, complete = _crossings(leaves_a, leaves_b)
    parts_a, parts_b = ([p for leaf in leaves.values() for p in leaf.parts] for leaves in (leaves_a, leaves_b))
    kinds = Counter(pair.relation.memory for pair in pairs)
    return TreeRelation(
        summary=TreeSummary(
            pairs=len(pairs),
            same=kinds["same"],
            overlap=kinds["overlap"],
            lazy=kinds["lazy"],
            separate=kinds["separate"],
            only_a=len(only_a),
            only_b=len(only_b),
            crossings=len(crossings),
            shared_bytes=shared_bytes(parts_a, parts_b),
            a_bytes=viewed_bytes(parts_a),
            b_bytes=viewed_bytes(parts_b),
            all_same_values=_all(pair.relation.same_values for pair in pairs),
        ),
        pairs=pairs,
        only_a=only_a,
        only_b=only_b,
        crossings=crossings,
        crossings_complete=complete,
        same_object=a is b,
    )


def _leaves(container: object, name: str) -> dict[tuple[Hashable, ...], _Leaf]:
    return {
        found.key: _Leaf(found, parts_of(found.tensor, f"{name}{found.path}"))
        for found in tensors_in(container, name)
    }


def _relate(a: _Leaf, b: _Leaf, values: bool, reader: GraphReader) -> Relation:
    return relate_tensors(a.found.tensor, b.found.tensor, a.parts, b.parts, values=values, reader=reader)


def _all(answers: Iterable[bool | None]) -> bool | None:
    seen = set(answers)
    return False if False in seen else None if None in seen or not seen else True


# --- memory shared between different paths ---------------------------------------------------------------------

_Leaves = dict[tuple[Hashable, ...], _Leaf]
_Group = list[_Leaf]


def _crossings(a: _Leaves, b: _Leaves) -> tuple[tuple[Crossing, ...], bool]:
    """The groups of paths that share bytes with a group of other paths; and whether all were looked at."""
    groups_a, groups_b = _groups(a), _groups(b)
    found: list[Crossing] = []
    for looked_at, (of_a, of_b) in enumerate(_candidates(groups_a, groups_b)):
        if looked_at == _MAX_CROSSINGS:
            return tuple(found), False
        if {leaf.found.key for leaf in of_a} == {leaf.found.key for leaf in of_b} and len(of_a) == 1:
            continue  # one tensor at one path on both sides: that is a pair
        parts_a, parts_b = of_a[0].parts, of_b[0].parts
        memory, shared = memory_of(parts_a, parts_b, viewed_bytes(parts_a), viewed_bytes(parts_b))
        if shared:
            found.append(Crossing(_paths(of_a), _paths(of_b), memory, shared))
    return tuple(found), True


def _paths(group: _Group) -> tuple[str, ...]:
    return tuple(leaf.found.path for leaf in group)


def _groups(leaves: _Leaves) -> list[_Group]:
    """The tensors with bytes, those on exactly the same bytes of the same storages together."""
    groups: dict[Hashable, _Group] = {}
    for leaf in leaves.values():
        if any(p.bytes.levels for p in leaf.parts):
            groups.setdefault(tuple((p.space, p.storage, p.bytes) for p in leaf.parts), []).append(leaf)
    return list(groups.values())


def _candidates(a: list[_Group], b: list[_Group]) -> Iterator[tuple[_Group, _Group]]:
    """The pairs of groups that have parts with overlapping spans, each once."""
    spans: dict[Hashable, list[tuple[ByteSet, bool, int]]] = {}
    for groups, is_a in ((a, True), (b, False)):
        for k, group in enumerate(groups):
            for part in group[0].parts:
                spans.setdefault(part.space, []).append((part.bytes, is_a, k))
    seen: set[tuple[int, int]] = set()
    for entries in spans.values():
        open_spans: list[tuple[ByteSet, bool, int]] = []
        for entry in sorted(entries, key=lambda e: e[0].start):
            open_spans = [e for e in open_spans if e[0].stop > entry[0].start]
            for other in open_spans:
                if other[1] == entry[1]:
                    continue
                pair = (entry[2], other[2]) if entry[1] else (other[2], entry[2])
                if pair not in seen:
                    seen.add(pair)
                    yield a[pair[0]], b[pair[1]]
            open_spans.append(entry)
