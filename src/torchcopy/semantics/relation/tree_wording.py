"""The sentences that a relation of two containers prints as."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from ..._tensors import format_bytes
from .wording import shown

if TYPE_CHECKING:
    from .pair import Relation
    from .tree import Crossing, PathRelation, TreeRelation

# Paths named in one text; the rest is counted.
_PATHS_NAMED = 10

Kind = Literal["object", "same", "overlap", "lazy", "copy", "differ", "separate"]
"""What is said of a pair: one object; the memory kinds, with `separate` parted by what is known of the values."""


def kind_of(r: Relation) -> Kind:
    """What is said of the pair `r`."""
    if r.same_tensor:
        return "object"
    if r.memory != "separate":
        return r.memory
    return "separate" if r.same_values is None else "copy" if r.same_values else "differ"


# (all of them are …, some of them are …, one of them is …)
_SAID: dict[Kind, tuple[str, str, str]] = {
    "object": (
        "b holds the very tensors of a",
        "are the very same tensors",
        "is the very same tensor",
    ),
    "same": (
        "b shares {all} with a ({shared}): writing one changes the other",
        "are the same memory: writing one changes the other",
        "is the same memory: writing one changes the other",
    ),
    "overlap": (
        "{all} of a and b overlap ({shared}): writing the common bytes changes both",
        "overlap: writing the common bytes changes both",
        "overlaps: writing the common bytes changes both",
    ),
    "lazy": (
        "b is a lazy copy of a: {all} share their bytes ({shared}) until the first write, which copies; "
        "writing one leaves the other",
        "share their bytes until the first write",
        "shares its bytes until the first write",
    ),
    "copy": (
        "b is an independent copy of a: {all} have equal values and no common byte; writing one leaves the other",
        "are independent copies",
        "is an independent copy",
    ),
    "differ": (
        "a and b are independent and differ: {all} have other values and no common byte",
        "are independent, with other values",
        "is independent, with other values",
    ),
    "separate": (
        "a and b are independent: {all} have no common byte; writing one leaves the other",
        "have memory of their own",
        "has memory of its own",
    ),
}


class _PathList:
    """Names paths until a text has named enough of them."""

    def __init__(self) -> None:
        self._left = _PATHS_NAMED

    def said(self, paths: Sequence[str]) -> str:
        named = paths[: max(0, self._left)]
        self._left -= len(named)
        more = len(paths) - len(named)
        if not named:
            return f"{more:,} more"
        if more:
            return f"{', '.join(f'`{path}`' for path in named)} … and {more:,} more"
        return _in_a_row([f"`{path}`" for path in named])


def tree_text(t: TreeRelation) -> str:
    """What `t` says, for a person: the common case first, then the paths that deviate from it."""
    paths = _PathList()
    sentences = [_first(t, paths), *_missing(t, paths)]
    if not t.same_object:
        sentences += [*_differences(t, paths), *_crossings(t, paths)]
    return " ".join(f"{sentence}." for sentence in sentences)


def _first(t: TreeRelation, paths: _PathList) -> str:
    if t.same_object:
        return f"a and b are one object, with {_tensors(len(t.pairs))} ({format_bytes(t.summary.a_bytes)})"
    if not t.pairs:
        return "a and b have no path in common" if t.only_a or t.only_b else "a and b hold no tensors"
    kinds: dict[Kind, list[str]] = {}
    for pair in t.pairs:
        kinds.setdefault(kind_of(pair.relation), []).append(pair.path)
    usual, *others = sorted(kinds, key=lambda kind: -len(kinds[kind]))
    count = len(t.pairs)
    if not others:
        shared = format_bytes(t.shared_bytes)
        everything = "the one tensor" if count == 1 else "both tensors" if count == 2 else f"all {_tensors(count)}"
        said = _SAID[usual][0].format(all=everything, shared=shared)
        if count == 1:
            said = said.replace("the one tensor have", "the one tensor has").replace("share their", "shares its")
            said = said.replace("the one tensor of a and b overlap", "the one tensor of a overlaps that of b")
    else:
        said = f"{len(kinds[usual]):,} of {_tensors(count)} {_verb(usual, len(kinds[usual]))}"
    if t.only_a or t.only_b:
        said = f"At {'the one path' if count == 1 else f'the {count:,} paths'} that both have, {said}"
    deviating = [f"{paths.said(kinds[kind])} {_verb(kind, len(kinds[kind]))}" for kind in others]
    return "; ".join([said, *deviating, *_gradients(t)])


def _gradients(t: TreeRelation) -> list[str]:
    relations = [pair.relation for pair in t.pairs if not pair.relation.same_tensor]
    if not any(r.a.requires_grad or r.b.requires_grad for r in relations):
        return []
    said = []
    for graph, text in (
        ("a→b", "gradients of b flow back to a"),
        ("b→a", "gradients of a flow back to b"),
        ("common", "gradients of both meet in a common node"),
    ):
        count = sum(r.graph == graph for r in relations)
        if count:
            said.append(text if count == len(relations) else f"{text} at {count:,} of them")
    among = " between the others" if len(relations) < len(t.pairs) else ""
    return said or [f"gradients do not flow{among}"]


def _missing(t: TreeRelation, paths: _PathList) -> list[str]:
    sides = (("a", t.only_a), ("b", t.only_b))
    return [f"Only {side} has {paths.said(missing)}" for side, missing in sides if missing]


def _differences(t: TreeRelation, paths: _PathList) -> list[str]:
    said = []
    for kind in ("dtype", "shape", "device", "layout", "strides"):
        differing = [pair for pair in t.pairs if kind in pair.relation.differences]
        if not differing:
            continue
        how = {_pairing(pair, kind) for pair in differing}
        values = f" ({' and '.join(how.pop())})" if len(how) == 1 else ""
        everything = len(differing) == len(t.pairs) > 1
        who = "All of them" if everything else paths.said([pair.path for pair in differing])
        said.append(f"{who} {'differ' if everything or len(differing) > 1 else 'differs'} in {kind}{values}")
    return said


def _pairing(pair: PathRelation, kind: str) -> tuple[str, str]:
    return shown(getattr(pair.relation.a, kind)), shown(getattr(pair.relation.b, kind))


def _crossings(t: TreeRelation, paths: _PathList) -> list[str]:
    said = [_crossing(c, paths) for c in t.crossings[:3]]
    if len(t.crossings) > 3:
        said.append(f"{len(t.crossings) - 3:,} more groups of paths share bytes across")
    if not t.crossings_complete:
        said.append("There may be more: too many tensors overlap to look at all of them")
    return said


def _crossing(c: Crossing, paths: _PathList) -> str:
    verb = "share" if len(c.paths_a) > 1 else "shares"
    how = " until the first write" if c.memory == "lazy" else ""
    shared = format_bytes(c.shared_bytes)
    return f"Across paths, {paths.said(c.paths_a)} of a {verb} {shared} with {paths.said(c.paths_b)} of b{how}"


def _verb(kind: Kind, count: int) -> str:
    return _SAID[kind][1 if count > 1 else 2]


def _tensors(count: int) -> str:
    return f"{count:,} tensor{'' if count == 1 else 's'}"


def _in_a_row(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
