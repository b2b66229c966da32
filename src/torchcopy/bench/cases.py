"""What a bench runs: things to copy, and ways to copy them."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from .records import Memory

S = TypeVar("S")


@dataclasses.dataclass(frozen=True)
class Method(Generic[S]):
    """One way to copy what a case builds.

    Attributes:
        id: its name.
        code: the expression.
        prepare: sets up what the timed call does not include, and returns the call.
    """

    id: str
    code: str
    prepare: Callable[[S], Callable[[], object]]


@dataclasses.dataclass(frozen=True)
class Case(Generic[S]):
    """One thing to copy.

    Attributes:
        source: its name.
        numel: number of elements.
        bytes: bytes of them.
        tensors: number of tensors.
        build: makes it; it is given back before the next case.
        limit: makes a warm `copy_` of it.
        look: compares it with what a method returned; raises TypeError for what is no copy of any kind.
        settle: called when a method is done with it: ends what copy-on-write has left on it.
    """

    source: str
    numel: int
    bytes: int
    tensors: int
    build: Callable[[], S]
    limit: Callable[[S], Callable[[], object]]
    look: Callable[[S, object], tuple[bool | None, Memory]]
    settle: Callable[[S], object] = lambda _: None


def spread_out(cases: Sequence[Case[S]]) -> list[int]:
    """The cases by size: smallest, largest, the middle between, and so on, so that a cut leaves a wide view."""
    sizes = sorted({case.numel for case in cases})
    order = [0, len(sizes) - 1]
    gaps = deque([(0, len(sizes) - 1)])
    while gaps:
        low, high = gaps.popleft()
        if high - low > 1:
            middle = (low + high) // 2
            order.append(middle)
            gaps.extend([(low, middle), (middle, high)])
    rank = {sizes[place]: position for position, place in reversed(list(enumerate(order)))}
    return sorted(range(len(cases)), key=lambda c: rank[cases[c].numel])
