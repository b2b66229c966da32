"""TC105: tensors with a graph that are kept from one iteration to the next, more and more of them."""

from __future__ import annotations

import dataclasses
import gc
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import compress
from types import FrameType
from typing import Any

from torch import Tensor

from ... import _torch_private
from ..._tensors import format_bytes
from ..finding_log import FindingLog, Found
from ..naming.sites import Sites
from ..records import SourceLine
from .accumulated_graphs import Chain, longest_chain
from .iterations import Iterations
from .kept_where import where_kept
from .saved_values import MOST_NODES, nodes_from

_FIRST_LOOK, _FEWEST = 4, 3
_MANY = 16  # graphs of so many iterations in a row are kept, whatever was there when it was looked last
_WINDOW = 8  # the graphs of the latest few iterations may be there on purpose
_MOST_UNUSED = 8
_MOST_HELD = 8  # lines of which it is asked whether anybody but another tensor's graph holds what they made
_NO_NUMBER = 1 << 62
_FIX = "keep the value without its graph: `loss.detach()`, or `loss.item()`"


@dataclasses.dataclass
class Unused:
    """Graphs that were kept before any backward had run."""

    count: int
    bytes: int
    nodes: int
    name: str
    line: SourceLine | None


@dataclasses.dataclass
class Told:
    """A finding, and what may yet show that it is none.

    Attributes:
        first: the oldest iteration of which there was a graph when it was told.
        oldest: that of which there was one at the last look.
        most: of how many iterations there were graphs.
    """

    found: Found
    first: int
    oldest: int
    most: int = 0


class KeptGraphs:
    """Looks, now and then, which tensors of earlier iterations still have a graph."""

    def __init__(self, findings: FindingLog, sites: Sites, line_of_node: Callable[[int], int]) -> None:
        self._findings, self._sites, self._line_of_node = findings, sites, line_of_node
        self._iterations = Iterations()
        self._next_look = _FIRST_LOOK
        self._told: dict[int, Told] = {}
        self._told_chains: dict[int, Found] = {}
        self._keepers: dict[int, tuple[str, SourceLine | None]] = {}
        self._meant: set[int] = set()  # lines whose graphs a backward has used, those of several iterations at once
        self._unused: dict[int, Unused] = {}
        self._ran_backward = False
        self._thread, self._is_off = threading.get_ident(), False
        self._before: dict[int, tuple[int, int]] = {}  # by line, at the last look: oldest iteration, how many

    # --- what happens ---------------------------------------------------------------------------------------------

    def backward_begins(self, roots: Iterable[Tensor], *, keeps_graph: bool = False) -> None:
        """A backward is about to run. Graphs of several iterations that it uses were kept for that.

        Not so those of one tensor that it leaves there for the next: a hidden state, say, that is never detached.
        """
        chains = {} if keeps_graph else self._told_chains
        if not (self._told or chains) or threading.get_ident() != self._thread:
            return
        used: dict[int, set[int]] = defaultdict(set)
        for node in nodes_from(roots):
            number = _torch_private.node_number(node)
            if number < _NO_NUMBER:
                used[self._line_of_node(number)].add(self._iterations.of(number))
        for site in (self._told.keys() | chains.keys()) & used.keys():
            if len(used[site]) >= _FEWEST:
                self._meant.add(site)
                if site in self._told:
                    self._findings.withdraw(self._told.pop(site).found)
                if site in chains:
                    self._findings.withdraw(chains.pop(site))

    def ran_backward(self) -> None:
        """A backward has run, of whatever kind: the program uses its graphs."""
        self._ran_backward = True

    def backward_ended(self, frame: FrameType | None) -> None:
        """A backward has run that keeps no graph: in a program without optimizers, an iteration is over."""
        if self._is_here() and self._iterations.ran_backward():
            self._look_if_due(frame)

    def stepped(self, optimizer: Any, frame: FrameType | None) -> None:
        """An optimizer has taken a step."""
        if self._is_here():
            before = len(self._iterations)
            is_first = self._iterations.stepped(optimizer)
            if len(self._iterations) < before:
                self._start_again()
            if is_first:
                self._look_if_due(frame)

    def _is_here(self) -> bool:
        """Each thread numbers its nodes by itself: iterations on several of them cannot be told apart."""
        self._is_off = self._is_off or threading.get_ident() != self._thread
        return not self._is_off

    def _start_again(self) -> None:
        """The first optimizer has stepped: what was ended by backwards were parts of one iteration."""
        for found in (*(told.found for told in self._told.values()), *self._told_chains.values()):
            self._findings.withdraw(found)
        for each in (self._told, self._told_chains, self._before):
            each.clear()
        self._next_look = _FIRST_LOOK

    def _look_if_due(self, frame: FrameType | None) -> None:
        if len(self._iterations) >= self._next_look:
            self._next_look = 2 * len(self._iterations)
            self.look(frame)

    # --- looking --------------------------------------------------------------------------------------------------

    def look(self, frame: FrameType | None, *, last: bool = False) -> None:
        """Looks at all tensors of the program that have a graph. The `last` time, some may be gone already."""
        if len(self._iterations) < _FEWEST or self._is_off:
            return
        kept = self._by_line()
        inner, is_all = _inner_nodes(t for tensors in kept.values() for t in tensors)
        before, self._before = self._before, {}
        for site, tensors in kept.items():
            steps = self._steps(tensors)
            self._before[site] = min(steps), len(steps)
            outer = [t for t in tensors if t.grad_fn not in inner]
            is_chain = self._look_along(outer[-_FEWEST:])
            if self._is_kept(steps, before.get(site, (-1, 0))):
                is_named = site in self._told or self._keeper(site, tensors[0], frame)[1] is not None
                if len(outer) >= _FEWEST and is_all and (is_named or not is_chain):
                    self._tell(site, outer, frame)
                elif is_named:
                    self._tell(site, tensors, frame)
        self._withdraw_windows(last=last)

    def _by_line(self) -> dict[int, list[Tensor]]:
        """The tensors with a graph, by the line that made them, the oldest first."""
        found: dict[int, list[tuple[int, int, Tensor]]] = defaultdict(list)
        for k, t in enumerate(_with_graph()):
            number = _torch_private.node_number(t.grad_fn)
            site = self._line_of_node(number) if number < _NO_NUMBER else 0
            if site:
                found[site].append((number, k, t))
        return {site: [t for _, _, t in sorted(tensors)] for site, tensors in found.items()}

    def _steps(self, tensors: list[Tensor]) -> set[int]:
        return {self._iterations.of(_torch_private.node_number(t.grad_fn)) for t in tensors}

    def _is_kept(self, steps: set[int], before: tuple[int, int]) -> bool:
        """Whether what is there of some iterations is kept, and was not just made."""
        if len(steps) < _FEWEST:
            return False
        oldest, count = before
        grows = oldest == min(steps) and count < len(steps)
        is_all = len(steps) > _FEWEST and len(steps) >= len(self._iterations)
        return grows or is_all or (len(steps) >= _MANY and self._is_each(steps))

    def _is_each(self, steps: set[int]) -> bool:
        """Whether these are all iterations from some one to the present."""
        return max(steps) >= len(self._iterations) - 1 and max(steps) - min(steps) < len(steps)

    # --- telling --------------------------------------------------------------------------------------------------

    def _keeper(self, site: int, oldest: Tensor, frame: FrameType | None) -> tuple[str, SourceLine | None]:
        """What keeps the tensors of a line, and where it is filled; asked once, for it takes its time."""
        if site not in self._keepers and len(self._keepers) - len(self._told) < _MOST_HELD:
            self._keepers[site] = where_kept(oldest, frame, self._sites)
        return self._keepers.get(site, ("", None))

    def _tell(self, site: int, tensors: list[Tensor], frame: FrameType | None) -> None:
        if site in self._meant:
            return
        steps = self._steps(tensors)
        told = self._told.get(site)
        if told is None:
            name, line = self._keeper(site, tensors[0], frame)
            places = [("made here, with its graph", site)]
            if line is not None:
                places.insert(0, (f"kept in `{name}` here", self._sites.add(line)))
            found = self._findings.add("TC105", "", places, fix=_FIX)
            told = self._told[site] = Told(found, min(steps), min(steps))
        is_same = told.oldest == min(steps)
        told.oldest, told.most = min(steps), max(told.most, len(steps))
        count = min(len(steps), len(self._iterations))
        more = ", and more with each" if is_same and self._is_each(steps) else ""
        told.found.message = f"{len(tensors)} tensors keep the graphs of {count} iterations alive{more}"
        self._measure(told.found, tensors)

    def _look_along(self, tensors: list[Tensor]) -> bool:
        """One tensor may hold the graphs of all iterations, if it is made from its last value in each."""
        is_told = False
        for t in reversed(tensors):
            chain = longest_chain(t, self._line_of_node, self._sites, self._iterations.of)
            if chain is None or chain.site in self._meant:
                continue
            if chain.steps > max(_FEWEST, len(self._iterations) // 4):
                self._tell_chain(t, chain)
                is_told = True
        return is_told

    def _tell_chain(self, t: Tensor, chain: Chain) -> None:
        found = self._told_chains.get(chain.site)
        if found is None:
            places = [("added to here, with its graph", chain.site), ("made here, with its graph", chain.made)]
            if not chain.made:
                places = [("made from its last value here, with its graph", chain.site)]
            found = self._told_chains[chain.site] = self._findings.add("TC105", "", places, fix=_FIX)
        count = min(chain.steps, len(self._iterations))
        least = "" if chain.is_whole else "at least "
        more = ", and more with each" if chain.newest >= len(self._iterations) - 1 else ""
        found.message = f"one tensor keeps the graphs of {least}{count} iterations alive{more}"
        self._measure(found, [t])

    def _measure(self, found: Found, tensors: list[Tensor]) -> None:
        size, nodes = _held_by(tensors)
        found.bytes, found.count = size, len(tensors)
        least = "at least " if nodes >= MOST_NODES else ""
        found.notes = (
            f"held by them when it was last seen, after {len(self._iterations)} iterations: "
            f"{least}{format_bytes(size)} and {nodes} nodes of graphs",
        )

    def _withdraw_windows(self, *, last: bool) -> None:
        """What was told of the first few iterations was a window on the latest ones, if the oldest are gone."""
        for site, told in list(self._told.items()):
            oldest = self._before[site][0] if site in self._before else told.first if last else -1
            if told.most <= _WINDOW and oldest != told.first:
                self._findings.withdraw(self._told.pop(site).found)

    # --- programs without a backward ------------------------------------------------------------------------------

    def look_without_backward(self, frame: FrameType | None) -> None:
        """Graphs that are kept while no backward has run at all may be for nothing: the end of the audit tells."""
        if self._ran_backward:
            return
        for site, tensors in self._by_line().items():
            if len(tensors) >= _MOST_UNUSED and not _are_one_graph(tensors):
                name, line = where_kept(tensors[0], frame, self._sites)
                self._unused[site] = Unused(len(tensors), *_held_by(tensors), name, line)

    def finish(self) -> None:
        """The audit is over: did a backward ever use the graphs?"""
        for site, unused in self._unused.items() if not self._ran_backward else ():
            places = [("made here, with its graph", site)]
            if unused.line is not None:
                places.insert(0, (f"kept in `{unused.name}` here", self._sites.add(unused.line)))
            self._findings.add(
                "TC105",
                f"{unused.count} tensors kept their graphs alive, and no backward ever ran",
                places,
                fix="run the model under `torch.no_grad()` or `torch.inference_mode()`",
                notes=[
                    f"held by them when it was seen: {format_bytes(unused.bytes)}, {unused.nodes} nodes of graphs"
                ],
                size=unused.bytes,
                count=unused.count,
            )


def _with_graph() -> Iterator[Tensor]:
    is_tensor: dict[type, bool] = {}
    objects = gc.get_objects()
    for kind in set(map(type, objects)):
        is_tensor[kind] = issubclass(kind, Tensor)
    for each in list(compress(objects, map(is_tensor.__getitem__, map(type, objects)))):
        try:
            if each.grad_fn is not None and not _torch_private.is_functorch_wrapper(each):
                yield each
        except RuntimeError:
            continue


def _inner_nodes(tensors: Iterable[Tensor]) -> tuple[set[Any], bool]:
    """The nodes that the graphs of some tensors have below those of the tensors, and whether these are all."""
    nodes = nodes_from(tensors)
    return {each for node in nodes for each, _ in node.next_functions}, len(nodes) < MOST_NODES


def _are_one_graph(tensors: list[Tensor]) -> bool:
    """Whether some are what others were computed from: one model's layers, and no iterations."""
    roots = {t.grad_fn for t in tensors}
    return any(
        each in roots
        for t in tensors[-4:]
        for node in nodes_from([t])
        for each, _ in node.next_functions
        if each is not None
    )


def _held_by(tensors: list[Tensor]) -> tuple[int, int]:
    """Bytes that the graphs of some tensors have saved, their own with them, and the number of nodes."""
    storages: dict[int, int] = {}
    nodes = nodes_from(tensors)
    values = [*tensors, *(value for node in nodes for _, value in _torch_private.saved_values(node))]
    for t in values:
        if not (t.is_leaf and t.requires_grad):  # parameters are there anyway
            try:
                storages[_torch_private.storage_id(t)] = t.untyped_storage().nbytes()
            except RuntimeError:
                storages[id(t)] = t.nbytes
    return sum(storages.values()), len(nodes)
