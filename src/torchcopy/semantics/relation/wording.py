"""The sentences that relations print as."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._tensors import format_bytes

if TYPE_CHECKING:
    from .pair import Relation, Side
    from .parts import TensorFacts

# Nodes of a way that are named before the middle is left out.
_NODES_NAMED = 4


def pair_text(r: Relation) -> str:
    """What `r` says, for a person: memory and writing; gradients; then what differs, and notes."""
    first = f"{memory_clause(r)}; {gradient_clause(r)}."
    return " ".join([first, *(f"{sentence}." for sentence in (*_version_sentences(r), *_differences(r), *r.notes))])


def source_of(r: Relation) -> Side | None:
    """Which of the two the other was made from, as far as it shows; None where neither or nothing tells."""
    if r.graph in ("a→b", "b→a"):
        return "a" if r.graph == "a→b" else "b"
    if r.view_base:
        return r.view_base
    if r.a.requires_grad != r.b.requires_grad and (r.memory != "separate" or r.same_values):
        return "a" if r.a.requires_grad else "b"
    if r.memory == "overlap" and r.a.viewed_bytes != r.b.viewed_bytes:
        contained = min(r.a.viewed_bytes, r.b.viewed_bytes) == r.shared_bytes
        if contained:
            return "a" if r.a.viewed_bytes > r.b.viewed_bytes else "b"
    return None


# --- memory ---------------------------------------------------------------------------------------------------


def memory_clause(r: Relation) -> str:
    """What they share, and what writing one does to the other."""
    if r.same_tensor:
        return "a and b are the same tensor object"
    if r.memory == "lazy":
        return _lazy_clause(r)
    if r.memory == "separate":
        return _separate_clause(r)
    if r.memory == "same":
        return f"{_same_bytes(r)}: {_writing(r, 'changes the other')}"
    return f"{_some_bytes(r)}: {_writing(r, 'changes both', 'those bytes')}"


def _same_bytes(r: Relation) -> str:
    source = source_of(r)
    if not r.same_storage:
        return "a and b are two storages on the same memory"
    if source is not None:
        return f"{_other(source)} is {_kind_of_view(r)} of {source}"
    if r.shares_version_counter is False:
        return "a and b are aliases of the same bytes, as `.data` makes them"
    return "a and b view the same bytes"


def _some_bytes(r: Relation) -> str:
    source = source_of(r)
    shared = format_bytes(r.shared_bytes)
    if source is not None and r.shared_bytes == _of(r, _other(source)).viewed_bytes < _of(r, source).viewed_bytes:
        whole = format_bytes(_of(r, source).viewed_bytes)
        kind = _kind_of_view(r) if r.same_storage else "another storage on the memory"
        return f"{_other(source)} is {kind} of part of {source} ({shared} of {whole})"
    bytes_a, bytes_b = format_bytes(r.a.viewed_bytes), format_bytes(r.b.viewed_bytes)
    return f"a and b overlap in {shared} (a has {bytes_a}, b has {bytes_b})"


def _kind_of_view(r: Relation) -> str:
    if r.graph in ("a→b", "b→a"):
        return "a view"
    if r.shares_version_counter is False:
        return "a `.data` alias"
    return "a detached view" if r.a.requires_grad != r.b.requires_grad else "a view"


def _writing(r: Relation, effect: str, what: str = "one") -> str:
    """What a write does, where one of two storages on the same bytes may be lazy."""
    if r.a.lazy == r.b.lazy or r.same_storage:
        return f"writing {what} {effect}"
    lazy, eager = ("a", "b") if r.a.lazy else ("b", "a")
    return f"writing {eager} changes both, writing {lazy} first moves it to memory of its own"


def _lazy_clause(r: Relation) -> str:
    source = source_of(r)
    who = f"{_other(source)} is a lazy clone of {source}" if source else "a and b are lazy clones"
    return (
        f"{who}: they share {format_bytes(r.shared_bytes)} until the first write to either, which copies; "
        "writing one leaves the other"
    )


def _separate_clause(r: Relation) -> str:
    if r.a.viewed_bytes == 0 and r.b.viewed_bytes == 0:
        return "a and b have no bytes to share"
    if r.same_storage:
        common = {p.storage for p in r.a.parts} & {p.storage for p in r.b.parts}
        kept = format_bytes(sum(r.storages[k].bytes for k in common))
        alive = f"either keeps all {kept} alive"
        if not (r.a.viewed_bytes and r.b.viewed_bytes):
            empty = "b" if r.a.viewed_bytes else "a"
            return f"a and b view one storage, of which {empty} has no bytes: writing one leaves the other; {alive}"
        return f"a and b are disjoint views of one storage: writing one leaves the other; {alive}"
    source = source_of(r)
    if r.graph in ("a→b", "b→a") and source:
        made = "is an independent copy of" if r.same_values else "was computed from"
        own = "" if r.same_values else ", into memory of its own"
        return f"{_other(source)} {made} {source}{own}: writing one leaves the other"
    if r.same_values:
        who = (
            f"{_other(source)} is an independent copy of {source}," if source else "a and b are independent copies"
        )
        return f"{who} with equal values: writing one leaves the other"
    if r.graph == "common":
        return "a and b have separate memory: writing one leaves the other"
    if r.same_values is None:
        return "a and b have separate memory, their values were not compared: writing one leaves the other"
    differ = "" if "shape" in r.differences else ", their values differ"
    return f"a and b are unrelated: no byte is shared{differ}"


# --- gradients and version counters -----------------------------------------------------------------------------


def gradient_clause(r: Relation) -> str:
    """Whether gradients flow between them, and through what."""
    if r.same_tensor:
        return "there is no copy"
    if r.graph in ("a→b", "b→a"):
        source: Side = "a" if r.graph == "a→b" else "b"
        return f"gradients of {_other(source)} flow back to {source} through {nodes_text(r.graph_path[::-1])}"
    if r.graph == "common" and r.common_at is not None:
        meeting = r.graph_path[r.common_at]
        where = "the same leaf" if meeting == "AccumulateGrad" else f"the same {meeting}"
        return f"both were computed from {where}, where their gradients meet"
    if not r.a.requires_grad and not r.b.requires_grad:
        return "neither requires gradients"
    return "gradients do not flow"


def nodes_text(nodes: tuple[str, ...]) -> str:
    """Names of nodes in a row, the middle of a long row left out."""
    if len(nodes) <= _NODES_NAMED:
        return " → ".join(nodes)
    left_out = len(nodes) - 3
    return " → ".join((nodes[0], nodes[1], f"… {left_out:,} more …", nodes[-1]))


def _version_sentences(r: Relation) -> list[str]:
    if r.same_tensor or r.memory == "lazy" or not (r.shared_bytes or r.same_storage):
        return []
    if r.shares_version_counter is False and r.shared_bytes:
        source = source_of(r)
        who = _other(source) if source else "one of them"
        return [f"Their version counters are separate, so autograd does not notice writes through {who}"]
    if r.shares_version_counter and not r.shared_bytes and r.a.viewed_bytes and r.b.viewed_bytes:
        return ["They share a version counter, so autograd takes a write to one for a write to the other"]
    if r.shares_version_counter is None and r.shared_bytes and (r.a.inference or r.b.inference):
        return ["Inference tensors have no version counter, so autograd does not notice writes"]
    return []


# --- differences -------------------------------------------------------------------------------------------------


def _differences(r: Relation) -> list[str]:
    said = [_difference(r, kind) for kind in r.differences]
    if r.same_values is False and r.shared_bytes and "shape" not in r.differences:
        said.append("values")
    if not said:
        return []
    *first, last = said
    return [f"They differ in {', '.join(first)} and {last}" if first else f"They differ in {last}"]


def _difference(r: Relation, kind: str) -> str:
    if kind in ("conjugation", "negation"):
        which = "a" if getattr(r.a, "conjugated" if kind == "conjugation" else "negated") else "b"
        return f"{kind} (of {which}, applied when it is read)"
    a, b = (shown(getattr(facts, kind)) for facts in (r.a, r.b))
    return f"{kind} ({a} and {b})"


def shown(value: object) -> str:
    """A dtype, shape, strides or device as sentences show them."""
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


def _of(r: Relation, side: Side) -> TensorFacts:
    return r.a if side == "a" else r.b


def _other(side: Side) -> Side:
    return "b" if side == "a" else "a"
