"""Who was computed from whom: the shortest way between two tensors in the autograd graph.

The graph is read through `grad_fn` and `next_functions` alone. Nothing is called that would make a node: the
`AccumulateGrad` of a leaf is found from the tensor computed from it, never asked of the leaf.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ..._errors import InputError

Graph = Literal["none", "a→b", "b→a", "common"]
"""`a→b`: b was computed from a, so gradients of b flow to a. `common`: neither, but both from something."""

_LEAF_NODE = "torch::autograd::AccumulateGrad"

# What freeing one link of a chain of nodes takes of the stack, twice over: measured 205 bytes, torch 2.13, x86-64.
_STACK_BYTES_A_LINK = 400


@dataclass(frozen=True, slots=True)
class GraphPath:
    """How two tensors hang together in the autograd graph.

    Attributes:
        graph: see `Graph`.
        nodes: names of the nodes on the shortest way. From a to b (or from b to a): what was done to the one to
            get the other, in the order it was done. For `common`: from a's node back to the nearest common one,
            and on to b's.
        common_at: where in `nodes` the common one stands; None where `graph` is not `common`.
        refused: what autograd said where it would not hand out the graph of a tensor; "" otherwise. Gradients do
            not flow through such a tensor: `backward` would raise the same.
    """

    graph: Graph
    nodes: tuple[str, ...] = ()
    common_at: int | None = None
    refused: str = ""


class GraphReader:
    """Reads each node of the graph once, however many pairs of tensors are asked about.

    From torch 2.13 on, a node that Python has seen is freed by recursion in C++, where an unseen one is freed by a
    loop: having looked at a long enough chain of nodes makes the process crash when the graph is freed, here about
    40,000 nodes on a stack of 8 MiB. So the reader keeps count of the longest chain that it has looked at, and
    stops with an `InputError` before it becomes dangerous. Wide graphs of any size are read to the end.
    """

    def __init__(self) -> None:
        self._nodes: list[Any] = []  # alive: elsewhere a node's Python object is made anew once nobody has it
        self._inputs: dict[int, list[tuple[Any, int]]] = {}
        self._unchecked_until = _longest_safe_chain()

    def inputs(self, node: Any) -> list[tuple[Any, int]]:
        """The nodes whose outputs went into `node`, and which of their outputs."""
        known = self._inputs.get(id(node))
        if known is None:
            if self._unchecked_until is not None and len(self._nodes) >= self._unchecked_until:
                self._check_chain()
            known = [(to, output) for to, output in node.next_functions if to is not None]
            self._nodes.append(node)
            self._inputs[id(node)] = known
        return known

    def _check_chain(self) -> None:
        limit = _longest_safe_chain()
        if limit is None:
            return
        room = limit - self._longest_chain()
        if room < limit // 16:
            raise InputError(
                f"the autograd graph is deeper than {limit:,} nodes: looking further would make torch "
                f"{torch.__version__} crash when the graph is freed; relate the memory alone with "
                "`relate(a.detach(), b.detach())`"
            )
        self._unchecked_until = len(self._nodes) + room  # a node lengthens a chain by one at most

    def _longest_chain(self) -> int:
        users = dict.fromkeys(self._inputs, 0)
        for inputs in self._inputs.values():
            for node, _ in inputs:
                if id(node) in users:
                    users[id(node)] += 1
        length = dict.fromkeys(users, 1)
        ready = deque(key for key, count in users.items() if count == 0)
        while ready:
            key = ready.popleft()
            for node, _ in self._inputs[key]:
                if id(node) in users:
                    length[id(node)] = max(length[id(node)], length[key] + 1)
                    users[id(node)] -= 1
                    if users[id(node)] == 0:
                        ready.append(id(node))
        return max(length.values(), default=0)


def graph_path(a: Tensor, b: Tensor, reader: GraphReader | None = None) -> GraphPath:
    """The shortest way between `a` and `b` in the autograd graph. Reads only.

    Args:
        a: any tensor.
        b: any tensor.
        reader: what has been read of the graph so far, where many pairs are asked about.

    Raises:
        InputError: the graph is too deep to be looked at in safety; see `GraphReader`.
    """
    if not (a.requires_grad and b.requires_grad):
        return GraphPath("none")
    try:
        node_a, node_b = a.grad_fn, b.grad_fn
    except RuntimeError as error:
        return GraphPath("none", refused=str(error).partition(". ")[0].rstrip("."))
    if a is b:
        name = "AccumulateGrad" if node_a is None else _name(node_a)
        return GraphPath("common", (name,), 0)
    reader = reader or GraphReader()
    of_b, of_a = _Ancestry(reader, node_b, a, node_a), _Ancestry(reader, node_a, b, node_b)
    # Turn by turn, so that a near ancestor is found near, whichever of the two it is.
    while not (of_b.done and of_a.done):
        if (way := of_b.next_level()) is not None:
            return GraphPath("a→b", tuple(reversed(way)))
        if (way := of_a.next_level()) is not None:
            return GraphPath("b→a", tuple(reversed(way)))
    return _common(of_a, of_b)


def _common(of_a: _Ancestry, of_b: _Ancestry) -> GraphPath:
    """The common node with the shortest way over it, from both ancestries walked to their ends."""
    both = (key for key in of_a.depth if key in of_b.depth)
    nearest = min(both, key=lambda key: of_a.depth[key] + of_b.depth[key], default=None)
    if nearest is None:
        return GraphPath("none")
    up, down = of_a.way_to(nearest), of_b.way_to(nearest)
    return GraphPath("common", (*up, *reversed(down[:-1])), len(up) - 1)


class _Ancestry:
    """The nodes that a tensor was computed by, found level by level; and whether `target` is among the inputs."""

    def __init__(self, reader: GraphReader, start: Any, target: Tensor, target_node: Any) -> None:
        self._reader = reader
        self._target, self._target_node, self._target_output = target, target_node, target.output_nr
        self._nodes: dict[int, Any] = {}
        self._parent: dict[int, int | None] = {}
        self.depth: dict[int, int] = {}
        self._level: list[int] = []
        if start is not None:
            self._meet(start, None, 0)

    @property
    def done(self) -> bool:
        return not self._level

    def next_level(self) -> list[str] | None:
        """Walks one level on; the way from the start to the target once the target is met."""
        level, self._level = self._level, []
        for key in level:
            for node, output in self._reader.inputs(self._nodes[key]):
                if self._is_target(node, output):
                    return self.way_to(key)
                if id(node) not in self._nodes:
                    self._meet(node, key, self.depth[key] + 1)
        return None

    def way_to(self, key: int) -> list[str]:
        """Names of the nodes from the start to the node `key`, both included."""
        return [_name(node) for node in self._back_from(key)][::-1]

    def _back_from(self, key: int | None) -> Iterable[Any]:
        while key is not None:
            yield self._nodes[key]
            key = self._parent[key]

    def _meet(self, node: Any, parent: int | None, depth: int) -> None:
        key = id(node)
        self._nodes[key], self._parent[key], self.depth[key] = node, parent, depth
        self._level.append(key)

    def _is_target(self, node: Any, output: int) -> bool:
        if self._target_node is not None:
            return node is self._target_node and output == self._target_output
        return node.name() == _LEAF_NODE and node.variable is self._target


def _name(node: Any) -> str:
    return str(node.name()).rpartition("::")[2]


@functools.cache
def _longest_safe_chain() -> int | None:
    """How long a chain of nodes may be looked at; None where looking has no consequences."""
    with torch.inference_mode(False), torch.enable_grad():
        leaf = torch.zeros((), requires_grad=True, device="cpu")
        chain = leaf.exp().exp()
    node, plain = chain.grad_fn.next_functions[0][0], object()  # type: ignore[union-attr]
    if sys.getrefcount(node) <= sys.getrefcount(plain):  # nobody but `node` keeps the Python object
        return None
    return _stack_bytes() // _STACK_BYTES_A_LINK


def _stack_bytes() -> int:
    """What a thread that frees a graph can be counted on to have."""
    try:
        import resource  # not on Windows
    except ImportError:
        return 1 << 20
    soft = resource.getrlimit(resource.RLIMIT_STACK)[0]
    # "unlimited" is the main thread's alone: glibc then gives the others 2 MiB
    return 2 << 20 if soft == resource.RLIM_INFINITY else min(soft, 8 << 20)
