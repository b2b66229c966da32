"""Which storages share which bytes, and the anchors that keep those bytes: a table that looks and forgets."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress, repeat
from operator import eq, ne, not_

from torch import Tensor

from ... import _torch_private

# A storage that died may still be giving up on a thread that does not hold the interpreter's lock.
_GRACE_S = 0.05
# Anchors are freed so many at a time: other threads get the interpreter in between.
_FREED_AT_ONCE = 512


class _Joined:
    """Storages that share the bytes at some addresses from now on, as weak references, one an address."""

    __slots__ = ("addresses", "again", "weak")

    def __init__(self, addresses: Sequence[int], weak: Sequence[int]) -> None:
        self.addresses, self.weak = addresses, weak
        self.again: list[bool] | None = None  # which of them were watched before


class AnchorTable:
    """The anchors of one process, and who shares bytes with them. Its pool says when it looks, and has the lock.

    A context is known by the address of its bytes: while the anchor keeps them, nothing else can have it.
    The storages that share them, the *siblings*, are watched through weak references: a tensor would keep them
    alive, and `p.data = x` changes the storage behind a tensor. A weak reference is a number that no other storage
    has until it is freed; it is freed when the storage is not watched any more.

    All is done with many storages in a call, at the speed of C: `map`, `compress`, sets and dicts of numbers.

    Ctrl-C may end anything here between two steps: their order is such that an anchor or a weak reference may then
    be left over, but none is let go too early. The same holds for a finaliser that forks the process in the midst
    of a step: the table of the child is this very object, and is empty from then on.

    Attributes:
        anchors: by the address of the bytes that each keeps.
        watched: the weak references of siblings, with the address of the bytes that each shares.
        changed: whether storages have joined or gone since somebody last set this to False.
        freeing_s: how much processor time went into freeing anchors, which is due once, early or late.
    """

    def __init__(self) -> None:
        self._inherited: list[object] = []
        self._clear()

    def _clear(self) -> None:
        self.anchors: dict[int, Tensor] = {}
        self.watched: dict[int, int] = {}
        self._joined: deque[_Joined] = deque()  # not among the watched yet
        self._giving_up: deque[tuple[float, Sequence[int | None]]] = deque()  # until when, which bytes
        self._probe = _torch_private.StorageProbe()
        self.changed = False
        self.freeing_s = 0.0

    def start_anew(self) -> None:
        """Empties the table, in place; the anchors that it had are kept for good."""
        self._inherited.append(self.anchors)
        self._clear()

    # --- taking ----------------------------------------------------------------------------------------------

    def known(self, addresses: Iterable[int]) -> list[bool]:
        """Which of these bytes have an anchor."""
        return list(map(self.anchors.__contains__, addresses))

    def hold(self, anchors: Mapping[int, Tensor], sources: Sequence[int]) -> None:
        """Keeps an anchor for the bytes at each address; `sources` are weak references to the storages there."""
        self.join(list(anchors), sources)  # first: an anchor without siblings is let go
        self.anchors.update(anchors)

    def join(self, addresses: Sequence[int], siblings: Sequence[int]) -> None:
        """Notes that storages, given by weak references, share the bytes at these addresses.

        A storage that shared others before has given those up: nobody writes it while it is forked.
        """
        self.changed = True
        self._joined.append(_Joined(addresses, siblings))

    def has_joined(self) -> bool:
        """Whether storages have joined that no look has seen yet."""
        return bool(self._joined)

    # --- looking ---------------------------------------------------------------------------------------------

    def newest_first(self) -> list[int]:
        """The weak references of all storages that are watched."""
        self._take_in()
        return list(reversed(self.watched))

    def _take_in(self) -> None:
        """Watches the storages that joined since the last time: work that a fork need not wait for."""
        joined, watched = self._joined, self.watched
        while joined:
            some = joined[0]
            if some.again is None:
                some.again = list(map(watched.__contains__, some.weak))
            watched.update(zip(some.weak, some.addresses, strict=True))
            joined.popleft()
            if True in some.again:
                _torch_private.free_weak_storages(compress(some.weak, some.again))

    def look(self, storages: Iterable[int], shared: set[int]) -> None:
        """Watches those no more that share their bytes no more; adds to `shared` which bytes are shared.

        One sibling that has the bytes is enough: the others at the same address are only asked whether they died.

        One whose bytes are elsewhere was written: PyTorch sets the new address after it has given up, and
        the context itself makes the last owner wait for its unlocking. One that died has given up, too, but on a
        thread without the interpreter's lock it may be just about to. So might one be that is lazy at another
        address: it may have been resized, which sets the address first.
        """
        left = self._drop_dead(storages)
        addresses = map(self.watched.get, left)
        where = {w: a for w, a in zip(left, addresses, strict=True) if a is not None and a not in shared}
        while where:
            one_each = dict(zip(where.values(), where, strict=True))
            seen = self._see(list(one_each.values()), list(one_each))
            shared.update(compress(one_each, map(eq, one_each, seen)))
            elsewhere = set(compress(one_each.values(), map(ne, one_each, seen)))
            self._drop_elsewhere(elsewhere)
            where = {w: a for w, a in where.items() if a not in shared and w not in elsewhere}

    def _see(self, storages: list[int], addresses: list[int]) -> list[int | None]:
        """Where the bytes of each are now. Those that may not be looked at count as unchanged."""
        try:
            return self._probe.look(storages)
        except RuntimeError:  # a device is in trouble, or one of them has no bytes that may be looked at
            if len(storages) == 1:
                return [*addresses]
        middle = len(storages) // 2
        halves = slice(None, middle), slice(middle, None)
        return [seen for half in halves for seen in self._see(storages[half], addresses[half])]

    def unshared(self) -> list[Tensor]:
        """The anchors whose bytes nobody else has. Lets none go."""
        known = dict(self.anchors)
        shared: set[int] = set()
        self.look(self.newest_first(), shared)
        return [anchor for address, anchor in known.items() if address not in shared]

    # --- letting go ------------------------------------------------------------------------------------------

    def _drop_dead(self, storages: Iterable[int]) -> list[int]:
        """Watches those no more that are gone; returns the others, of those that are watched."""
        watched = list(filter(self.watched.__contains__, storages))
        dead = _torch_private.expired_storages(watched)
        self._drop(list(compress(watched, dead)), gave_up=False)
        return list(compress(watched, map(not_, dead)))

    def _drop_elsewhere(self, storages: Collection[int]) -> None:
        if not storages:
            return
        weak = list(storages)
        try:
            lazy = self._probe.are_lazy(weak)
        except RuntimeError:
            lazy = [None] * len(weak)
        written = [state is False for state in lazy]
        self._drop(list(compress(weak, written)), gave_up=True)
        self._drop(list(compress(weak, map(not_, written))), gave_up=False)

    def _drop(self, storages: Sequence[int], *, gave_up: bool) -> None:
        """Watches them no more. Where they may be just about to give up, the anchors stay for a moment."""
        if not storages:
            return
        self.changed = True
        # Where a finaliser has forked the process in the midst of this, the child has nothing to forget.
        mine = list(filter(self.watched.__contains__, storages))
        if not gave_up:
            self._giving_up.append((time.monotonic() + _GRACE_S, list(map(self.watched.get, mine))))
        deque(map(self.watched.pop, mine, repeat(None)), maxlen=0)
        _torch_private.free_weak_storages(mine)

    def release_due(self) -> None:
        """Lets the anchors go whose bytes nobody shares, but those that somebody may be just giving up."""
        known = set(self.anchors)  # first: whoever shares these has joined before
        self._take_in()
        now, giving_up = time.monotonic(), self._giving_up
        while giving_up and giving_up[0][0] <= now:
            giving_up.popleft()
        known.difference_update(self.watched.values(), *(addresses for _, addresses in giving_up))
        self._release(known)

    def release_dead(self) -> None:
        """Lets the anchors go whose bytes nobody shares, asking only who died: that is quick."""
        self._take_in()
        self._drop_dead(self.watched)
        self.release_due()

    def let_go(self, own: Mapping[int, int]) -> int:
        """Lets the anchors go whose bytes nobody else shares; returns how many those were.

        Args:
            own: the addresses of the bytes, with the storages that may keep them.
        """
        alone = own.keys() & self.anchors.keys()
        self._take_in()
        there = list(compress(self.watched, map(alone.__contains__, self.watched.values())))
        others = [weak for weak in there if weak != own[self.watched[weak]]]
        shared: set[int] = set()
        self.look(reversed(others), shared)
        alone.difference_update(shared, *(some.addresses for some in tuple(self._joined)))  # by a finaliser
        self._drop([weak for weak in there if self.watched.get(weak) in alone], gave_up=True)
        self._release(alone)
        return len(alone)

    def _release(self, addresses: Collection[int]) -> None:
        # All are taken out before the bytes of the first one go: another fork may get its address at once.
        # In the order in which they were made, which is how they lie in memory.
        addresses = list(compress(self.anchors, map(addresses.__contains__, self.anchors)))
        anchors = list(map(self.anchors.pop, addresses, repeat(None)))
        start = time.thread_time()
        while anchors:
            del anchors[:_FREED_AT_ONCE]  # the bytes go here, unless a tensor has them
        self.freeing_s += time.thread_time() - start
