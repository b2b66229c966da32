"""How two structures are walked in step: what belongs together, where each is, and where the two differ."""

import collections
import collections.abc
import dataclasses
import threading

import numpy as np
import pytest
import torch
from torch import nn

import torchcopy as tc
from case_names import without_address
from torchcopy.copying.writing.difference_wording import path_text
from torchcopy.copying.writing.matching import Matching
from torchcopy.copying.writing.named_parts import named_tensors, wrapper_prefix
from torchcopy.copying.writing.new_values import is_plain, same_value


def t(value=0.0):
    return torch.full((1,), value)


def places(matching):
    return [tuple(map(path_text, matching.paths(k))) for k in range(len(matching.dsts))]


def matched(dst, src, *, assign=True):
    matching = Matching(dst, src, assign=assign)
    assert len(matching.dsts) == len(matching.srcs)
    return matching


def test_pairs_and_their_places():
    dst = {"a": t(), "b": [t(), (t(), {"c": t()})]}
    src = {"b": (t(), [t(), {"c": t()}]), "a": t()}
    matching = matched(dst, src)
    assert places(matching) == [
        ("dst['a']", "src['a']"),
        ("dst['b'][0]", "src['b'][0]"),
        ("dst['b'][1][0]", "src['b'][1][0]"),
        ("dst['b'][1][1]['c']", "src['b'][1][1]['c']"),
    ]
    assert matching.dsts[3] is dst["b"][1][1]["c"]
    assert matching.srcs[3] is src["b"][1][1]["c"]
    assert matching.differences == []
    assert matching.ordinary


def test_places_in_modules_optimizers_and_state_dicts():
    def build():
        model = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        optimizer.step()
        return model, optimizer

    (model, optimizer), (other_model, other) = build(), build()
    found = places(matched({"m": model, "o": optimizer}, {"m": other_model, "o": other}))
    assert ("dst['m'].0.weight", "src['m'].0.weight") in found
    assert ("dst['m'].1.running_var", "src['m'].1.running_var") in found
    assert ("dst['o'].state[0]['momentum_buffer']", "src['o'].state[0]['momentum_buffer']") in found
    found = places(matched([model, optimizer], [other_model.state_dict(), other.state_dict()]))
    assert ("dst[0].0.weight", "src[0]['0.weight']") in found
    assert ("dst[1].state[0]['momentum_buffer']", "src[1]['state'][0]['momentum_buffer']") in found


def test_fields_of_dataclasses_and_namedtuples():
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        x: object
        n: int = 0

    pair = collections.namedtuple("pair", "left right")
    matching = matched([Frozen(t()), pair(t(), t())], [Frozen(t()), pair(t(), t())])
    assert [d for d, _ in places(matching)] == ["dst[0].x", "dst[1].left", "dst[1].right"]
    matching = matched([Frozen(t(), 1)], [Frozen(t(), 2)])
    assert matching.new_values == ()
    assert "dst[0].n: expected 1, found 2: what holds it cannot be changed" in matching.differences[0]


def test_values_to_assign():
    shared_d, shared_s = {"n": 1}, {"n": 2}
    matching = matched([shared_d, shared_d, 5], [shared_s, shared_s, 6])
    assert [(new.place[1], new.place[2], new.value) for new in matching.new_values] == [
        ("[]", "n", 2),
        ("[]", 2, 6),
    ]
    assert matched([shared_d, 5], [shared_s, 6], assign=False).new_values == ()


def test_one_place_takes_one_value():
    shared = {"n": 1}
    (line,) = matched([shared, shared], [{"n": 2}, {"n": 3}]).differences
    assert line == "dst[1]['n']: expected 1, found 3: the same place takes 2 from src[0]['n']"


def test_what_is_held_twice_is_entered_once():
    inner_d, inner_s = [t()], [t()]
    assert len(matched([inner_d, inner_d], [inner_s, inner_s]).dsts) == 1
    assert len(matched([inner_d, inner_d], [inner_s, [t()]]).dsts) == 2


def test_cycles_of_other_lengths():
    dst, src = [t()], [t(), [t()]]
    dst.append(dst)
    src[1].append(src)
    matching = matched(dst, src)
    assert matching.differences == []
    assert len(matching.dsts) == 2


def test_deep_nesting_needs_no_recursion():
    dst, src = t(), t(1.0)
    for _ in range(5000):
        dst, src = [dst], [src]
    tc.copy_(dst, src)
    for _ in range(5000):
        dst, src = dst[0], src[0]
    assert dst.tolist() == [1]
    src.zero_()
    assert dst.tolist() == [1]


def test_numpy_arrays_and_subclasses_are_pairs_that_are_not_ordinary():
    assert not matched([np.zeros(1)], [t()]).ordinary
    assert not matched({"a": t().as_subclass(type("Own", (torch.Tensor,), {}))}, {"a": t()}).ordinary
    assert matched(nn.Linear(1, 1), nn.Linear(1, 1)).ordinary


def test_modules_with_names_of_their_own():
    """One holds a parameter where the other has a child that holds it."""

    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.ParameterDict({"w": nn.Parameter(t())})

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Module()
            self.inner.w = nn.Parameter(t(1.0))
            self.unused = nn.Module()

    dst, src = Flat(), Deep()
    tc.copy_(dst, src)
    assert dst.inner["w"].tolist() == [1]
    with torch.no_grad():
        src.inner.w.zero_()
        assert dst.inner["w"].tolist() == [1]
        dst.inner["w"].fill_(2)
    assert src.inner.w.tolist() == [0]


@pytest.mark.parametrize(
    ("names", "longer", "prefix"),
    [
        (["a", "b"], ["module.a", "module.b"], "module."),
        (["a", "b"], ["module.a", "module.b", "more"], "module."),
        (["a", "b"], ["module.a", "b"], ""),
        (["a"], ["x.b"], ""),
        ([], ["module.a"], ""),
        (["a"], [], ""),
        (["0.w"], ["m.0.w"], "m."),
    ],
)
def test_the_prefix_of_a_wrapper(names, longer, prefix):
    assert wrapper_prefix(names, longer) == prefix


def test_names_of_tensors():
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.BatchNorm1d(1))
    model.register_buffer("passing", t(), persistent=False)
    model.again = model[0]
    named, left_out = named_tensors(model)
    assert named.keys() == model.state_dict().keys() | {"passing"}
    assert named["again.weight"] is named["0.weight"]
    assert left_out == {"passing"}


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1, 1, True), (1, 1.0, False), (1, True, False), (float("nan"), float("nan"), True), ("a", "a", True),
        ((1, (2,)), (1, (2,)), True), ((1, float("nan")), (1, float("nan")), True), ((1,), (1, 2), False),
        ({1, 2}, {2, 1}, True), ({1}, {2}, False), (None, None, True), (object(), object(), False),
        (torch.float32, torch.float32, True), (np.float32(1), np.float32(1), True), ([1], [1], False),
    ],
    ids=without_address,
)  # fmt: skip
def test_equal_values(a, b, same):
    assert same_value(a, b) is same


@pytest.mark.parametrize(
    "value", [1, "a", None, (1, ("b",)), frozenset({1}), torch.float32, len, np.float32(1)], ids=without_address
)
def test_plain_values(value):
    assert is_plain(value)


@pytest.mark.parametrize(
    "value", [[], {}, set(), ([],), object(), torch.zeros(1), np.zeros(1), nn.ReLU()], ids=without_address
)
def test_values_that_could_change_under_another_holder(value):
    assert not is_plain(value)


def test_equal_sets_and_one_object_on_both_sides_are_no_difference():
    shared = object()
    dst, src = {"t": t(), "set": {1, 2}, "same": shared}, {"t": t(1.0), "set": {2, 1}, "same": shared}
    tc.copy_(dst, src)
    assert dst["t"].tolist() == [1]
    src["t"].zero_()
    src["set"].add(3)
    assert dst["t"].tolist() == [1]
    assert dst["set"] == {1, 2}


class Rows(collections.abc.MutableMapping):
    """Iterates over rows, as a TensorDict does, not over its keys."""

    def __init__(self, **columns):
        self.columns = columns

    def keys(self):
        return self.columns.keys()

    def __iter__(self):
        yield from ([row] for row in zip(*self.columns.values(), strict=True))

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __contains__(self, key):
        raise NotImplementedError("ask `keys()`")

    def __getitem__(self, key):
        return self.columns[key]

    def __setitem__(self, key, value):
        self.columns[key] = value

    def __delitem__(self, key):
        del self.columns[key]


def test_a_mapping_that_iterates_over_something_else():
    dst, src = Rows(x=torch.zeros(3), y=torch.zeros(3)), Rows(y=torch.ones(3), x=torch.full((3,), 2.0))
    assert tc.copy_(dst, src) is dst
    assert (dst["x"].tolist(), dst["y"].tolist()) == ([2] * 3, [1] * 3)
    src["x"].zero_()
    assert dst["x"].tolist() == [2] * 3
    dst["y"].zero_()
    assert src["y"].tolist() == [1] * 3


@pytest.mark.parametrize(
    ("dst", "src", "line"),
    [
        (
            [threading.Lock()],
            [threading.Lock()],
            r"dst\[0\]: expected a `lock`, found another: `copy_` cannot write",
        ),
        ([{1}], [{2}], r"dst\[0\]: expected a set of 1, found another: .*leave it out, or let dst and src have"),
        (("a" * 99 + "b", t()), ("a" * 99 + "c", t()), r"dst\[0\]: expected 'a+…, found another: what holds it"),
        ([torch.zeros(1).expand(3)], [torch.zeros(3)], r"dst\[0\]: float32\[3\] cpu: dst is expanded"),
    ],
    ids=["locks", "sets", "long strings", "tensors"],
)
def test_two_that_read_alike_are_told_apart(dst, src, line):
    with pytest.raises(tc.InputError, match=line) as caught:
        tc.copy_(dst, src)
    assert "\n" not in str(caught.value)
