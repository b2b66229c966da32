"""Random trees: a copy has the structure that `copy.deepcopy` makes, and the source's structure of memory."""

import copy

import numpy as np
import pytest
import torch
from copying_checks import (
    SplitReferenceError,
    assert_alike,
    assert_apart,
    assert_arrays_apart,
    assert_only_what_is_viewed,
    assert_outside_the_graph,
    assert_same_sharing,
    assert_shared,
    deepcopied,
    matched_tensors,
    same_values,
)
from copying_classes import Annotated, Node, Point, Record, digest
from copying_trees import DEEPCOPY_ROLES, trees
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import torchcopy as tc

EVERY = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
FEW = settings(max_examples=40, derandomize=True, **EVERY)
MANY = settings(max_examples=1000, **EVERY)


def copied_with_care(tree, **options):
    """The copy, its tensors and arrays beside the source's, and the tensors of what `copy.deepcopy` would make.

    Asserts that the copy has the structure that `copy.deepcopy` makes, and that the source was not written.
    """
    shared, looks = options.get("share", ()), {"gradients": options.get("grad", False)}
    looks["in_graph"] = options.get("graph") == "keep"
    reference = deepcopied(tree, shared)
    sources = [t for t, _ in matched_tensors(tree, reference, one_to_one=False, gradients=True, shared=shared)[0]]
    before = [(t._version, digest(t)) for t in sources]
    made = tc.copy(tree, on_escape="ignore", **options)
    assert [(t._version, digest(t)) for t in sources] == before, "the source was written"
    # Of an object that leads to itself through arguments of its constructor, `copy.deepcopy` makes two. So may we.
    if not is_one_to_one(tree, reference, shared) and not is_one_to_one(tree, made, shared):
        pairs, arrays = matched_tensors(tree, made, one_to_one=False, shared=shared, **looks)
    else:
        pairs, arrays = matched_tensors(tree, made, shared=shared, **looks)
    if not looks["gradients"]:
        assert all(c.grad is None for _, c in pairs if c.is_leaf)
    return pairs, arrays


def is_one_to_one(tree, copied, shared):
    try:
        matched_tensors(tree, copied, shared=shared, in_graph=True)
    except SplitReferenceError:
        return False
    return True


def assert_copied(pairs, arrays, dtype=None):
    for s, c in pairs:
        assert_alike(s, c, dtype=dtype)
    assert_same_sharing(pairs, dtype=dtype)
    assert_apart(pairs, dtype=dtype)
    assert_arrays_apart(arrays)


def by_default(tree):
    pairs, arrays = copied_with_care(tree)
    assert_outside_the_graph(pairs)
    assert_only_what_is_viewed(pairs)
    assert_copied(pairs, arrays)


def beside_a_deepcopy(tree):
    made, deep = tc.copy(tree, on_escape="ignore"), copy.deepcopy(tree)
    tensors, arrays = matched_tensors(deep, made, one_to_one=False)
    for d, c in tensors:
        assert same_values(d, c)
        assert d.requires_grad == c.requires_grad
    assert all(np.array_equal(d, c) for d, c in arrays)
    pairs, arrays = matched_tensors(tree, made, one_to_one=False)
    assert_apart(pairs)
    assert_arrays_apart(arrays)


def lazily(tree):
    pairs, arrays = copied_with_care(tree, memory="lazy")
    assert_outside_the_graph(pairs)
    assert_only_what_is_viewed(pairs, lazy=True)
    assert_copied(pairs, arrays)


def as_aliases(tree):
    pairs, _ = copied_with_care(tree, memory="share")
    assert_outside_the_graph(pairs)
    for s, c in pairs:
        assert_alike(s, c)
        assert (s.storage_offset(), s.stride()) == (c.storage_offset(), c.stride())
    assert_shared(pairs)


def with_gradients(tree):
    pairs, arrays = copied_with_care(tree, grad=True)
    assert_outside_the_graph(pairs)
    assert_only_what_is_viewed(pairs)
    assert_copied(pairs, arrays)


def lazily_with_gradients(tree):
    pairs, arrays = copied_with_care(tree, memory="lazy", grad=True)
    assert_outside_the_graph(pairs)
    assert_only_what_is_viewed(pairs, lazy=True)
    assert_copied(pairs, arrays)


def to_a_device(tree):
    pairs, arrays = copied_with_care(tree, device="cpu", grad=True)
    assert_outside_the_graph(pairs)
    assert_only_what_is_viewed(pairs)
    assert_copied(pairs, arrays)


def to_a_dtype(tree):
    pairs, arrays = copied_with_care(tree, dtype=torch.float64, grad=True)
    assert_outside_the_graph(pairs)
    assert_copied(pairs, arrays, dtype=torch.float64)


def without_gradients(tree):
    pairs, arrays = copied_with_care(tree, requires_grad=False)
    assert not any(c.requires_grad for _, c in pairs)
    assert_copied(pairs, arrays)


@st.composite
def with_shared(draw):
    """A tree, and what of it the copy is to refer to."""
    tree = draw(trees())
    tensors, arrays = matched_tensors(tree, deepcopied(tree), one_to_one=False)
    objects = [s for s, _ in tensors + arrays]
    types = [Record, Node, Point, Annotated, nn.Parameter, np.ndarray, torch.Tensor]
    return tree, tuple(draw(st.lists(st.sampled_from([*objects, *types]), min_size=1, max_size=2, unique_by=id)))


def beside_shared(drawn):
    tree, share = drawn
    pairs, arrays = copied_with_care(tree, share=share)
    assert_outside_the_graph(pairs)
    assert_copied(pairs, arrays)


def in_the_graph(tree, memory):
    pairs, arrays = copied_with_care(tree, memory=memory, graph="keep")
    for s, c in pairs:
        assert_alike(s, c)
        assert c.requires_grad == s.requires_grad
        assert c.is_leaf != s.requires_grad
    for ours, theirs in zip(*(gradients(ts) for ts in zip(*pairs, strict=True)), strict=True):
        assert torch.equal(ours, theirs)
    if memory == "share":
        assert_shared(pairs)
    else:
        assert_same_sharing(pairs)
        assert_apart(pairs)
        assert_arrays_apart(arrays)


def gradients(tensors):
    """What reaches each leaf of the graph from the values of all tensors, each with its own weight."""
    losses = [
        weight * (t.real + 2 * t.imag if t.is_complex() else t).double().sum()
        for weight, t in enumerate(tensors, 1)
        if t.requires_grad
    ]
    leaves, seen, todo = [], set(), [loss.grad_fn for loss in losses]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            leaves += [node.variable] if hasattr(node, "variable") else []
            todo += [each for each, _ in node.next_functions]
    leaves.sort(key=id)
    return torch.autograd.grad(sum(losses), leaves, retain_graph=True) if leaves else ()


def own_in_the_graph(tree):
    in_the_graph(tree, "own")


def lazily_in_the_graph(tree):
    in_the_graph(tree, "lazy")


def aliases_in_the_graph(tree):
    in_the_graph(tree, "share")


CHECKS = {
    by_default: trees(),
    # Parameters lose their attributes in a deepcopy; of others that lead to themselves it makes two.
    beside_a_deepcopy: trees(roles=DEEPCOPY_ROLES, attributes=False),
    lazily: trees(),
    as_aliases: trees(),
    with_gradients: trees(),
    lazily_with_gradients: trees(),
    to_a_device: trees(),
    to_a_dtype: trees(),
    without_gradients: trees(),
    beside_shared: with_shared(),
    own_in_the_graph: trees(modules=False),
    lazily_in_the_graph: trees(modules=False),
    aliases_in_the_graph: trees(modules=False),
}
each_check = pytest.mark.parametrize(
    ("check", "strategy"), [pytest.param(*each, id=each[0].__name__.replace("_", " ")) for each in CHECKS.items()]
)


@each_check
def test_copies_of_random_trees(check, strategy):
    FEW(given(strategy)(check))()


@pytest.mark.slow
@each_check
def test_copies_of_very_many_random_trees(check, strategy):
    MANY(given(strategy)(check))()
