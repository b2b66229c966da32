"""One tensor with the graphs of many iterations, each made from the one before: `total = total + loss`."""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from torch import Tensor

from ... import _torch_private
from ..naming.sites import Sites
from .saved_values import MOST_NODES, nodes_from

_NO_NUMBER = 1 << 62
_Numbered = tuple[int, Any]


@dataclasses.dataclass
class Chain:
    """The graphs that hang on one tensor.

    Attributes:
        site: the line that makes each value from the last.
        made: the line that makes what is added; 0 where that is the same, or none.
        steps: of how many iterations there are graphs.
        newest: the latest of them.
        is_whole: whether all of the graph was looked at.
    """

    site: int
    made: int
    steps: int
    newest: int
    is_whole: bool


def longest_chain(
    t: Tensor, line_of_node: Callable[[int], int], sites: Sites, iteration_of: Callable[[int], int]
) -> Chain | None:
    """The line nearest to `t` that has made each iteration's value from that of the iteration before."""
    nodes = nodes_from([t])
    made_by: dict[int, dict[int, list[_Numbered]]] = defaultdict(lambda: defaultdict(list))
    for node in nodes:
        number = _torch_private.node_number(node)
        if number < _NO_NUMBER and (site := line_of_node(number)):
            made_by[site][iteration_of(number)].append((number, node))
    repeated = [(_newest(steps[max(steps)])[0], site) for site, steps in made_by.items() if len(steps) > 1]
    for _, site in sorted(repeated, reverse=True):
        steps = made_by[site]
        newest = max(steps)
        _, node = _newest(steps.pop(newest))
        before = steps[max(steps)]
        if _leads_to(node, before):
            made = _made_at(node, before, line_of_node, sites, site)
            return Chain(site, made, len(steps) + 1, newest, len(nodes) < MOST_NODES)
    return None


def _newest(nodes: list[_Numbered]) -> _Numbered:
    return max(nodes, key=lambda each: each[0])


def _leads_to(node: Any, older: list[_Numbered]) -> bool:
    """Whether a node was made from one of some older ones. What a node is made from has a smaller number."""
    oldest, wanted = min(number for number, _ in older), {each for _, each in older}
    waiting, seen = [node], {node}
    while waiting:
        for each, _ in waiting.pop().next_functions:
            if each in wanted:
                return True
            if each is not None and each not in seen and oldest < _torch_private.node_number(each) < _NO_NUMBER:
                seen.add(each)
                waiting.append(each)
    return False


def _made_at(
    node: Any, before: list[_Numbered], line_of_node: Callable[[int], int], sites: Sites, site: int
) -> int:
    """The line of what is added to the value of the iteration before, if it is another line."""
    waiting, seen = deque([node]), {node}
    while waiting:
        for each, _ in waiting.popleft().next_functions:
            if each is None or each in seen or _torch_private.node_number(each) >= _NO_NUMBER:
                continue
            seen.add(each)
            made = line_of_node(_torch_private.node_number(each))
            is_added = any(each is old for _, old in before) or _leads_to(each, before)
            if made and not is_added and sites.line_number(made) != sites.line_number(site):
                return made
            if not any(each is old for _, old in before):
                waiting.append(each)
    return 0
