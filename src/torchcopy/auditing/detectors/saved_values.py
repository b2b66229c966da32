"""TC102 and TC103: a value that autograd has saved is overwritten, and then used by the backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from ... import _torch_private
from ..._tensors import has_storage
from ..finding_log import FindingLog

# PyTorch crashes when a chain of some 40,000 nodes is freed that Python has looked at
# (docs/decisions/0006-deep-graphs.md).
MOST_NODES = 20_000
_MOST_STATISTICS = 10_000
_ACCUMULATES = 1 << 62  # nodes that accumulate gradients have no number of their own


class SavedValues:
    """Looks at a graph when its backward is about to run, if something was written behind autograd's back.

    Attributes:
        writes: by storage: the number of the next node at its last write, and the line.
        newest: the largest such number of a write that moved no version counter, or another one than the graph's.
        exposed: storages that are written through another version counter than that of their tensors.
    """

    def __init__(
        self, findings: FindingLog, line_of_node: Callable[[int], int], puts_back: Callable[[int], bool]
    ) -> None:
        self._findings, self._line_of_node, self._puts_back = findings, line_of_node, puts_back
        self.writes: dict[int, tuple[int, int]] = {}
        self.newest = -1
        self.exposed: set[int] = set()
        self._statistics: set[int] = set()  # those that a batch norm has used since it wrote them

    def expose(self, tensor: Tensor) -> None:
        """Somebody can write to the memory of `tensor` without autograd's knowledge from now on."""
        with _torch_private.without_function_modes():
            if not has_storage(tensor):
                return
        if len(self.exposed) > 100_000:
            self.exposed.clear()
        self.exposed.add(_torch_private.storage_id(tensor))

    def written(self, storages: Iterable[int], number: int, site: int, *, silent: bool) -> None:
        """Storages were written, before the node `number` was made."""
        self.writes.update(dict.fromkeys(storages, (number, site)))
        if number > self.newest and (silent or not self.exposed.isdisjoint(storages)):
            self.newest = number
        if len(self.writes) > 200_000:
            for storage in list(self.writes)[:100_000]:
                del self.writes[storage]

    def use_statistics(self, storages: Iterable[int]) -> None:
        """A batch norm in evaluation has used its running statistics: its backward will use them again."""
        if len(self._statistics) > _MOST_STATISTICS:
            self._statistics.clear()
        self._statistics.update(storages)

    def wrote_statistics(self, storages: Iterable[int], number: int, site: int) -> None:
        """A batch norm in training has written its running statistics, before the node `number` was made.

        No version counter tells of it. What saved them in training does not use them.
        """
        used = self._statistics.intersection(storages)
        if used:
            self._statistics -= used
            self.written(used, number, site, silent=True)

    def written_raw(self, storage: int, number: int, site: int) -> None:
        """A storage was written by who asks nobody, after the node before `number` was made."""
        there = self.writes.get(storage)
        if there is None or there[0] < number:
            self.writes[storage] = (number, site)
        self.newest = max(self.newest, number)

    def before_backward(self, roots: Iterable[Tensor], inputs: Iterable[Tensor], site: int) -> None:
        """A backward is about to run: what it will use wrongly is TC102."""
        if self.newest < 0:
            return
        nodes = nodes_from(roots)
        if not any(_torch_private.node_number(node) < self.newest for node in nodes):
            return
        wanted = _leading_to(nodes, inputs)
        for node in nodes:
            number = _torch_private.node_number(node)
            if number >= self.newest or (wanted is not None and node not in wanted):
                continue
            for name, value in _torch_private.saved_values(node):
                write = self._write_since(value, number)
                if write and _torch_private.is_used(node, name) and not _torch_private.was_noticed(node, name):
                    self._findings.add(
                        "TC102",
                        f"the gradient is wrong: `{_name(node)}` uses a value overwritten behind its back",
                        [
                            ("saved for the backward here", self._line_of_node(number)),
                            ("overwritten here", write),
                            ("used by the backward here", site),
                        ],
                        fix="write after the backward, or into a copy: `.detach().clone()` in place of `.data`",
                        size=value.nbytes,
                    )
                    break  # one value is enough to spoil what the node computes

    def after_error(self, roots: Iterable[Tensor], site: int) -> None:
        """PyTorch has refused a backward because a saved value was overwritten: TC103 says where."""
        found: list[tuple[int, int, int, Any]] = []
        for node in nodes_from(roots):
            number = _torch_private.node_number(node)
            if number >= _ACCUMULATES:
                continue
            for name, value in _torch_private.saved_values(node):
                if _torch_private.was_noticed(node, name):
                    found.append((number, self._write_since(value, number), value.nbytes, node))
        if not found:
            return
        number, write, size, node = max(found, key=lambda each: each[0])
        self._findings.add(
            "TC103",
            f"the backward fails: `{_name(node)}` needs a value that was overwritten in place",
            [
                ("saved for the backward here", self._line_of_node(number)),
                ("overwritten here", write),
                ("the backward fails here", site),
            ],
            fix="write into a copy (`x = x + 1` in place of `x += 1`), or after the backward",
            size=size,
        )

    def _write_since(self, value: Tensor, number: int) -> int:
        if not has_storage(value):
            return 0
        at, site = self.writes.get(_torch_private.storage_id(value), (-1, 0))
        return site if at > number and not self._puts_back(site) else 0


def nodes_from(roots: Iterable[Tensor]) -> list[Any]:
    """The nodes that a backward from `roots` may reach, each once."""
    waiting = [root.grad_fn for root in roots if root.grad_fn is not None]
    seen = set(waiting)
    found: list[Any] = []
    while waiting and len(found) < MOST_NODES:
        node = waiting.pop()
        found.append(node)
        for each, _ in node.next_functions:
            if each is not None and each not in seen:
                seen.add(each)
                waiting.append(each)
    return found


def _leading_to(nodes: list[Any], inputs: Iterable[Tensor]) -> set[Any] | None:
    """Those from which the gradients of `inputs` come; None where all gradients are wanted."""
    ends = {_end_of(t) for t in inputs}
    ends.discard(None)
    if not ends:
        return None
    before: dict[Any, list[Any]] = {}
    for node in nodes:
        for each, _ in node.next_functions:
            if each is not None:
                before.setdefault(each, []).append(node)
    found: set[Any] = set()
    waiting = [end for end in ends if end in before]
    while waiting:
        for node in before.get(waiting.pop(), ()):
            if node not in found:
                found.add(node)
                waiting.append(node)
    return found


def _end_of(t: Tensor) -> Any:
    return get_gradient_edge(t).node if t.requires_grad else None


def _name(node: Any) -> str:
    return str(node.name()).rsplit("::", 1)[-1]
