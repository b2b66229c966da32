from __future__ import annotations

import contextlib
import gc
import sys
import threading

import pytest
import torch

from torchcopy import InputError
from torchcopy.semantics.relation.graph_path import GraphPath, GraphReader, graph_path

graph_path_module = sys.modules["torchcopy.semantics.relation.graph_path"]


@pytest.fixture
def leaf():
    return torch.ones(3, requires_grad=True)


def swapped(path: GraphPath) -> GraphPath:
    turn = {"a→b": "b→a", "b→a": "a→b"}
    at = None if path.common_at is None else len(path.nodes) - 1 - path.common_at
    nodes = path.nodes[::-1] if path.graph == "common" else path.nodes
    return GraphPath(turn.get(path.graph, path.graph), nodes, at, path.refused)


class Doubled(torch.autograd.Function):
    """Keeps an attribute of the name that PyTorch's leaf nodes use for their tensor."""

    @staticmethod
    def forward(ctx, x):
        ctx.variable = x
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


CASES = {
    "clone-of-a-leaf": lambda x: (x, x.clone(), "a→b", ("CloneBackward0",)),
    "names-in-the-order-done": lambda x: (x, (x * 2).sum(), "a→b", ("MulBackward0", "SumBackward0")),
    "from-a-tensor-inside": lambda x: ((y := x * 2), y.exp().sum(), "a→b", ("ExpBackward0", "SumBackward0")),
    "a-view": lambda x: (x, x.view(3, 1), "a→b", ("ViewBackward0",)),
    "detached": lambda x: (x, x.detach(), "none", ()),
    "data": lambda x: (x, x.data, "none", ()),
    "detached-then-made-a-leaf": lambda x: (x, x.detach().requires_grad_(), "none", ()),
    "two-leaves": lambda x: (x, torch.ones(3, requires_grad=True), "none", ()),
    "two-graphs": lambda x: (x * 2, torch.ones(3, requires_grad=True) * 2, "none", ()),
    "no-grad": lambda x: (torch.ones(2), torch.ones(2), "none", ()),
    "a-custom-function": lambda x: (x, Doubled.apply(x), "a→b", ("DoubledBackward",)),
    "through-a-custom-function": lambda x: (x, Doubled.apply(x).exp(), "a→b", ("DoubledBackward", "ExpBackward0")),
}


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_ancestors(make, leaf):
    a, b, graph, nodes = make(leaf)
    path = graph_path(a, b)
    assert (path.graph, path.nodes, path.common_at) == (graph, nodes, None)
    assert graph_path(b, a) == swapped(path)


def test_the_shortest_of_two_ways(leaf):
    long = leaf
    for _ in range(5):
        long = long.sin()
    assert graph_path(leaf, long + leaf.exp()).nodes == ("ExpBackward0", "AddBackward0")


def test_two_outputs_of_one_node_are_common_not_ancestors(leaf):
    first, second, third = (leaf * 2).unbind()
    assert graph_path(first, second) == GraphPath("common", ("UnbindBackward0",), 0)
    assert graph_path(first, second * 2) == GraphPath("common", ("UnbindBackward0", "MulBackward0"), 0)
    assert graph_path(third, third * 2) == GraphPath("a→b", ("MulBackward0",))


def test_common_way_goes_up_and_down(leaf):
    middle = leaf.exp()
    a, b = middle.sin().cos(), middle.abs()
    path = graph_path(a, b)
    assert path == GraphPath("common", ("CosBackward0", "SinBackward0", "ExpBackward0", "AbsBackward0"), 2)
    assert graph_path(b, a) == swapped(path)


def test_a_common_leaf(leaf):
    assert graph_path(leaf.sin(), leaf.cos()) == GraphPath(
        "common", ("SinBackward0", "AccumulateGrad", "CosBackward0"), 1
    )


def test_the_nearest_common_node(leaf):
    near = leaf.exp().sin()
    assert graph_path(near * 2, near * 3).nodes[1] == "SinBackward0"


def test_one_tensor_twice(leaf):
    assert graph_path(leaf, leaf) == GraphPath("common", ("AccumulateGrad",), 0)
    y = leaf * 2
    assert graph_path(y, y) == GraphPath("common", ("MulBackward0",), 0)
    plain = torch.ones(2)
    assert graph_path(plain, plain) == GraphPath("none")


def test_a_tensor_written_since_is_no_longer_the_ancestor(leaf):
    a = leaf * 1
    b = a * 2
    assert graph_path(a, b).graph == "a→b"
    a.add_(1)
    assert graph_path(a, b) == GraphPath("common", ("AddBackward0", "MulBackward0", "MulBackward0"), 1)


def test_a_view_of_a_base_written_in_place():
    base, source = torch.zeros(4), torch.ones(2, requires_grad=True)
    base[:2].mul_(source)
    assert graph_path(source, base).nodes[-1] == "CopySlices"


def test_after_backward_the_way_is_still_there(leaf):
    y = (leaf * leaf).sum()
    y.backward()
    assert graph_path(leaf, y).graph == "a→b"


def test_what_autograd_refuses_is_said():
    base = torch.ones(4)
    with torch.no_grad():
        view = base[:2]
    source = torch.ones(4, requires_grad=True)
    base.mul_(source)
    path = graph_path(source, view)
    assert path.graph == "none"
    assert path.refused.startswith("A view was created in no_grad mode")


def ladder(leaf, steps, width):
    """`steps` nodes deep, `width` nodes wide at each step."""
    y = leaf
    for _ in range(steps):
        y = torch.stack([y + 1 for _ in range(width)]).sum(0)
    return y


def test_a_hundred_thousand_nodes_without_recursion(leaf):
    y = ladder(leaf, 500, 200)  # the longest chain is 1,500: all of it may be looked at
    path = graph_path(leaf, y)
    assert path.graph == "a→b"
    assert path.nodes == ("AddBackward0", "StackBackward0", "SumBackward1") * 500
    assert graph_path(y, leaf.exp()).nodes[-2:] == ("AccumulateGrad", "ExpBackward0")


def test_a_deep_chain_without_recursion(leaf):
    y = leaf
    for _ in range(3_000):
        y = y + 1
    assert graph_path(leaf, y) == GraphPath("a→b", ("AddBackward0",) * 3_000)


class TestWhereLookingIsDangerous:
    @pytest.fixture(autouse=True)
    def _limit(self, monkeypatch):
        monkeypatch.setattr(graph_path_module, "_longest_safe_chain", lambda: 160)

    def test_a_chain_that_is_too_deep_is_refused(self, leaf):
        y = leaf
        for _ in range(500):
            y = y + 1
        with pytest.raises(
            InputError, match=r"deeper than 160 nodes.*crash.*`relate\(a.detach\(\), b.detach\(\)\)`"
        ):
            graph_path(leaf, y)

    def test_what_is_near_is_found_all_the_same(self, leaf):
        y = leaf
        for _ in range(500):
            y = y + 1
        assert graph_path(y, y.exp()).graph == "a→b"
        assert graph_path(y.exp(), y).graph == "b→a"

    def test_a_wide_graph_is_read_to_the_end(self, leaf):
        assert len(graph_path(leaf, ladder(leaf, 20, 100)).nodes) == 60

    def test_a_skip_to_every_step_does_not_hide_the_chain(self, leaf):
        y, steps = leaf, []
        for _ in range(500):
            y = y + 1
            steps.append(y)
        with pytest.raises(InputError, match="deeper"):  # every node is two steps from the end
            graph_path(torch.ones(3, requires_grad=True), torch.stack(steps))

    def test_one_reader_counts_over_all_pairs(self, leaf):
        chain = [leaf]
        for _ in range(400):
            chain.append(chain[-1] + 1)
        reader = GraphReader()
        with pytest.raises(InputError, match="deeper"):
            [graph_path(chain[k], chain[k + 50], reader) for k in range(0, 400, 50)]


def test_the_safe_length_follows_the_stack():
    limit = graph_path_module._longest_safe_chain()
    assert limit is None or limit == graph_path_module._stack_bytes() // 400


def test_a_graph_that_was_looked_at_to_the_limit_can_be_freed(leaf):
    """In a thread of its own; a crash would take the whole test run down with it."""
    y = leaf
    for _ in range((graph_path_module._longest_safe_chain() or 20_000) + 5):
        y = y + 1
    with contextlib.suppress(InputError):
        graph_path(leaf, y)
    held = [y]
    del y
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert held == []


def test_each_node_is_visited_once(leaf):
    """A ladder of n steps has 2ⁿ ways down; only a walk that remembers comes to an end."""
    y = leaf
    for _ in range(200):
        y = y + y
    assert len(graph_path(leaf, y).nodes) == 200
    assert graph_path(y, torch.ones(3, requires_grad=True) * 2).graph == "none"


def accumulate_grads_of(leaf):
    return [o for o in gc.get_objects() if type(o).__name__ == "AccumulateGrad" and o.variable is leaf]


def test_no_accumulate_grad_is_made_for_a_leaf(leaf):
    """A leaf's node keeps its hooks' tensor alive and fixes its stream: looking must not bring one about."""
    other = torch.ones(3, requires_grad=True)
    graph_path(leaf, leaf)
    graph_path(leaf, other)
    graph_path(leaf, other * 2)
    assert accumulate_grads_of(leaf) == []
    edge = torch.autograd.graph.get_gradient_edge(leaf)  # this is what would make one, and be seen
    assert accumulate_grads_of(leaf) == [edge.node]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_in_every_grad_mode(mode, leaf):
    y = leaf.exp()
    with mode():
        assert graph_path(leaf, y).nodes == ("ExpBackward0",)
