"""Forks: which tensors share their bytes lazily and which are copied at once, forks of forks, the price."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

import torchcopy as tc
from torchcopy import _torch_private as private
from torchcopy.copying.copy_on_write import anchor_table, anchors, lazy

NOTES = "ignore:.*(prototype|beta|deprecated|not writable).*"

LAZY = {
    "dense": lambda: torch.arange(6.0),
    "a parameter": lambda: nn.Parameter(torch.arange(6.0)),
    "bool": lambda: torch.arange(4) > 1,
    "complex": lambda: torch.arange(4).to(torch.complex64),
    "float8": lambda: torch.arange(4.0).to(torch.float8_e4m3fn),
    "expanded": lambda: torch.arange(3.0).expand(2, 3),
    "channels last": lambda: torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "most of a storage": lambda: torch.arange(1000.0)[:900],
}
EAGER = {
    "numpy": lambda: torch.from_numpy(np.arange(6.0)),
    "shared memory": lambda: torch.arange(6.0).share_memory_(),
    "little of a storage": lambda: torch.arange(1000.0)[:10],
    "conjugated": lambda: torch.arange(4).to(torch.complex64).conj(),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "sparse rows": lambda: torch.eye(3).to_sparse_csr(),
    "quantized": lambda: torch.quantize_per_tensor(torch.arange(3.0), 0.1, 0, torch.qint8),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
}
KINDS = LAZY | EAGER


def values(t):
    if t.is_nested:
        return [values(each) for each in t.unbind()]
    if t.is_quantized:
        return t.dequantize().tolist()
    return (t.to_dense() if t.layout != torch.strided else t).tolist()


def overwrite(t, byte):
    """Writes all that `t` has, by the way its layout allows."""
    if t.is_nested:
        t.fill_(byte + 10)
    elif t.is_quantized:
        t.copy_(torch.quantize_per_tensor(torch.full(t.shape, 0.7 + byte), 0.1, 0, torch.qint8))
    elif t.layout == torch.strided:
        t.untyped_storage().fill_(byte)
    else:
        (t._values() if t.layout == torch.sparse_coo else t.values()).fill_(byte + 10)


def assert_apart(a, b):
    """Each is written, and the other looked at."""
    before = values(b)
    overwrite(a, 1)
    assert values(b) == before
    assert values(a) != before
    after = values(a)
    overwrite(b, 0)
    assert values(a) == after
    assert values(b) not in (before, after)


# --- tensor by tensor ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings(NOTES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", ["source", "fork"])
def test_relate_says_which_tensors_share_lazily(kind, first):
    source = KINDS[kind]()
    forked = tc.fork({"before": torch.ones(2), "t": source, "after": torch.ones(3)})
    assert type(forked["t"]) is type(source)
    assert values(forked["t"]) == values(source)
    assert tc.relate(source, forked["t"]).memory == ("lazy" if kind in LAZY else "separate")
    assert private.is_lazy(forked["before"])
    assert private.is_lazy(forked["after"])
    assert_apart(*((source, forked["t"]) if first == "source" else (forked["t"], source)))


def test_relate_of_a_tree_counts_them():
    tree = {
        "own": torch.arange(4.0),
        "numpy": torch.from_numpy(np.arange(4.0)),
        "shared": torch.ones(3).share_memory_(),
        "list": [torch.zeros(2)],
    }
    forked = tc.fork(tree)
    related = tc.relate(tree, forked).summary
    assert (related.lazy, related.separate, related.same, related.overlap) == (2, 2, 0, 0)
    for name in ("own", "numpy", "shared"):
        assert_apart(tree[name], forked[name])
    forked["list"][0].add_(1)
    assert tree["list"][0].tolist() == [0, 0]
    tree["list"][0].sub_(1)
    assert forked["list"][0].tolist() == [1, 1]


def test_where_torch_fails_the_self_check_a_fork_is_a_copy(monkeypatch):
    monkeypatch.setattr(private, "copy_on_write_works", lambda: False)
    source = torch.arange(3.0)
    forked = tc.fork(source)
    assert tc.relate(source, forked).memory == "separate"
    assert_apart(source, forked)


def test_views_of_one_storage_stay_views_of_one():
    base = torch.arange(6.0)
    left, right = tc.fork([base[:4], base[2:]])
    assert tc.relate(left, base[:4]).memory == "lazy"
    left[2] = 9
    assert right.tolist() == [9, 3, 4, 5]
    assert base.tolist() == [0, 1, 2, 3, 4, 5]
    base.zero_()
    assert left.tolist() == [0, 1, 9, 3]


# --- in the graph ----------------------------------------------------------------------------------------------

IN_GRAPH = {
    "a leaf": lambda w: w,
    "a result": lambda w: w * 2,
    "a view": lambda w: (w * 2).view(2, 2),
    "expanded": lambda w: (w * 1).view(1, 4).expand(3, 4),
    "complex": lambda w: torch.complex(w, w * 2),
    "conjugated": lambda w: torch.complex(w, w * 2).conj(),
    "sparse": lambda w: torch.diag(w).to_sparse(),
}


@pytest.mark.filterwarnings(NOTES)
@pytest.mark.parametrize("make", IN_GRAPH.values(), ids=IN_GRAPH)
def test_gradients_flow_through_a_lazy_copy_as_through_a_clone(make):
    gradients = []
    for copied in (torch.clone, lambda t: tc.copy(t, graph="keep", memory="lazy")):
        weight = torch.arange(1.0, 5.0, requires_grad=True)
        t = copied(make(weight))
        dense = t.to_dense() if t.is_sparse else t
        (dense * dense * 3).abs().sum().backward()
        gradients.append(weight.grad)
    assert torch.equal(*gradients)
    assert gradients[0].any()


@pytest.mark.parametrize("write_first", ["source", "copy"])
def test_a_lazy_copy_in_the_graph_is_written_on_either_side(write_first):
    weight = torch.arange(3.0, requires_grad=True)
    source = weight * 1
    copied = tc.copy(source, graph="keep", memory="lazy")
    assert tc.relate(source, copied).memory == "lazy"
    sides = {"source": source, "copy": copied}
    sides[write_first].mul_(10)
    (other,) = sides.keys() - {write_first}
    assert sides[other].tolist() == [0, 1, 2]
    sides[other].mul_(100)
    assert sides[write_first].tolist() == [0, 10, 20]
    (source.sum() + copied.sum()).backward()
    assert weight.grad.tolist() == [110, 110, 110]


def test_what_autograd_saved_before_a_fork_is_still_good():
    weight = torch.arange(3.0, requires_grad=True)
    loss = (weight * weight).sum()
    forked = tc.fork(weight)
    with torch.no_grad():
        forked.zero_()
    loss.backward()
    assert weight.grad.tolist() == [0, 2, 4]
    with torch.no_grad():
        weight.fill_(7)
    assert forked.tolist() == [0, 0, 0]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # PyTorch's own, of forward mode
def test_second_derivatives_and_forward_mode():
    x = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    lazily = lambda t: tc.copy(t, graph="keep", memory="lazy") ** 3  # noqa: E731
    assert torch.autograd.gradcheck(lazily, x)
    assert torch.autograd.gradgradcheck(lazily, x)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x.detach(), torch.ones((), dtype=torch.float64))
        assert torch.autograd.forward_ad.unpack_dual(lazily(dual)).tangent == 27


# --- several ---------------------------------------------------------------------------------------------------


def test_how_many():
    source = {"w": torch.arange(3.0)}
    assert tc.fork(source, 0) == []
    (only,) = tc.fork(source, 1)
    several = tc.fork(source, 3)
    everyone = [source, only, *several]
    assert all(tc.relate(a["w"], b["w"]).memory == "lazy" for a, b in itertools.combinations(everyone, 2))
    for number, each in enumerate(everyone):
        assert each["w"].tolist() == [0, 1, 2]
        each["w"].fill_(10 + number)
    assert [each["w"][0].item() for each in everyone] == [10, 11, 12, 13, 14]


def test_a_number_of_numpys_is_one_too():
    source = torch.arange(3.0)
    first, second = tc.fork(source, np.int64(2))
    first.fill_(1)
    source.fill_(2)
    assert (first.tolist(), second.tolist(), source.tolist()) == ([1, 1, 1], [0, 1, 2], [2, 2, 2])


def test_a_memo_says_what_is_copied_already():
    source, instead = {"a": torch.zeros(2), "b": torch.ones(2)}, torch.full((2,), 5.0)
    memo = {id(source["a"]): instead}
    forked = tc.fork(source, memo=memo)
    assert forked["a"] is instead
    assert memo[id(source)] is forked
    several = tc.fork(source, 2, memo={id(source["a"]): instead})
    assert several[0] is not several[1]
    assert all(each["a"] is instead for each in several)
    several[0]["b"].fill_(7)
    source["b"].fill_(8)
    assert [each["b"].tolist() for each in (source, forked, *several)] == [[8, 8], [1, 1], [7, 7], [1, 1]]
    with pytest.raises(tc.InputError, match="`memo` must be a dict"):
        tc.fork(source, memo=[])


def test_an_escape_is_told_once_on_the_callers_line():
    module = nn.Linear(2, 2)
    module.register_forward_hook(lambda *_: module.weight)
    with pytest.warns(tc.EscapeWarning) as caught:
        forks = tc.fork(module, 3)
    (warning,) = caught
    assert warning.filename == __file__
    with torch.no_grad():
        forks[0].weight.zero_()
    assert forks[1].weight.any()
    assert module.weight.any()


@pytest.mark.parametrize("n", [-1, True, False, 2.0, "2", [1], np.float64(2)], ids=repr)
def test_a_bad_number_is_one_clear_line_and_forks_nothing(n):
    source = torch.arange(3.0)
    with pytest.raises(tc.InputError, match="`n` must be a number of forks, or None for one without a list; got"):
        tc.fork(source, n)
    assert not private.is_lazy(source)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_forks_of_forks_are_written_in_any_order(order):
    source = torch.arange(3.0)
    child = tc.fork(source)
    family = [source, child, tc.fork(child), tc.fork(source, 1)[0]]
    for number in order:
        assert family[number].tolist() == [0, 1, 2]
        family[number].fill_(number + 10)
    assert [t[0].item() for t in family] == [10, 11, 12, 13]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_forks_of_forks_are_dropped_in_any_order(order):
    source = torch.arange(3.0)
    child = tc.fork(source)
    family = [source, child, *tc.fork(child, 2)]
    del source, child
    for position, number in enumerate(order):
        family[number] = None
        if position == 1:
            anchors.settle()
        assert all(t is None or t.tolist() == [0, 1, 2] for t in family)
        if position == 2:
            (left,) = (t for t in family if t is not None)
            left.add_(1)
            assert left.tolist() == [1, 2, 3]
            family[order[3]] = None


def test_a_fork_of_a_written_fork_has_what_was_written():
    model = nn.Linear(2, 2)
    child = tc.fork(model)
    with torch.no_grad():
        child.weight.fill_(1.0)
    grandchild = tc.fork(child)
    assert tc.relate(model.weight, grandchild.weight).memory == "separate"
    assert tc.relate(model.bias, grandchild.bias).memory == "lazy"
    with torch.no_grad():
        child.weight.fill_(2.0)
        model.bias.fill_(3.0)
    assert (grandchild.weight == 1.0).all()
    assert not (grandchild.bias == 3.0).any()


# --- the price in memory ---------------------------------------------------------------------------------------


TENSORS, TENSOR_BYTES = 10, 40_000
WHOLE = TENSORS * TENSOR_BYTES


@pytest.fixture
def in_use(monkeypatch):
    """A function that takes steps, each with a list of families of tensors, and says how many bytes are in use.

    Anchors go when a step says so. The allocator counts; it knows of no byte that was taken before the first step.
    The pool is a new one: sources that other tests forked and still have keep their anchors.
    """
    pool = anchors.AnchorPool()
    monkeypatch.setattr(anchors, "pool", pool)
    monkeypatch.setattr(lazy, "pool", pool)
    monkeypatch.setattr(anchor_table, "_GRACE_S", 0.0)
    monkeypatch.setattr(pool, "_thread", object())

    def in_use(*steps):
        families = []

        def take():
            families.append([torch.zeros(TENSOR_BYTES // 4) for _ in range(TENSORS)])
            for step in steps:
                step(families)

        taken = sum(private.profiled_allocations(take))
        for number, family in enumerate(families):
            write(number)(families)
            assert all(t[0] == number + 1 for t in family)
        assert all(t[0] == number + 1 for number, family in enumerate(families) for t in family)
        families.clear()
        anchors.settle()
        assert len(anchors.pool) == 0
        return taken

    return in_use


def fork(count):
    return lambda families: families.extend(tc.fork(families[0], count))


def write(number, first=TENSORS):
    def write(families):
        for t in families[number][:first]:
            t.fill_(number + 1)

    return write


def drop(first, last=None):
    return lambda families: families.__delitem__(slice(first, last))


def settle(families):
    anchors.settle()


def held(expected):
    def check(families):
        assert anchors.held_bytes() == expected

    return check


def test_bytes_are_taken_at_the_write_and_given_back(in_use):
    assert in_use() == WHOLE
    assert in_use(fork(3)) == WHOLE
    assert in_use(fork(1), write(0, first=3)) == WHOLE + 3 * TENSOR_BYTES
    both = (fork(1), write(0), write(1))
    assert in_use(*both, held(WHOLE)) == 3 * WHOLE
    assert in_use(*both, settle, held(0)) == 2 * WHOLE


def test_only_what_was_written_on_all_sides_is_given_back(in_use):
    partly = (fork(2), write(0), write(1), write(2, first=4))
    assert in_use(*partly, held(4 * TENSOR_BYTES)) == 3 * WHOLE + 4 * TENSOR_BYTES
    assert in_use(*partly, settle, held(0)) == 3 * WHOLE


def test_forks_dropped_unwritten_cost_one_copy_at_the_next_write_and_give_it_back(in_use):
    dropped = (fork(3), drop(1))
    assert in_use(*dropped, settle) == WHOLE
    assert in_use(*dropped, write(0), held(WHOLE)) == 2 * WHOLE
    assert in_use(*dropped, write(0), settle, held(0)) == WHOLE


def test_where_the_caller_lets_go_that_copy_is_not_made(in_use):
    let_go = lambda families: anchors.let_go(families[0])  # noqa: E731
    assert in_use(fork(3), drop(1), let_go, write(0), held(0)) == WHOLE


def test_all_bytes_go_with_the_last_of_them(in_use):
    assert in_use(fork(2), drop(0, 2)) == WHOLE
    assert in_use(fork(2), drop(0), held(WHOLE)) == WHOLE
    assert in_use(fork(2), drop(0), settle, held(0)) == 0
