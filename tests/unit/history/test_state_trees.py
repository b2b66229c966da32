"""A state taken apart and put together again is what it was, and shares with nobody."""

import collections
import copy
import dataclasses
import enum

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import torchcopy as tc
from bitwise import bits, differences
from torchcopy.history.state_trees import paths, put_together, take_apart
from training_runs import MODES

Point = collections.namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Statistics:
    mean: torch.Tensor
    names: list


def round_trip(state):
    tensors = []
    tree = take_apart(state, tensors, "state")
    return put_together(tree, tensors), tensors, tree


def assert_same(a, b, path="state"):
    """Equal in values, types and order; the containers are not the same objects."""
    assert type(a) is type(b), path
    if isinstance(a, torch.Tensor):
        assert a is b, path
    elif isinstance(a, dict):
        assert a is not b, path
        assert list(a) == list(b), path
        for name in a:
            assert_same(a[name], b[name], f"{path}[{name!r}]")
    elif isinstance(a, (list, tuple)):
        assert a is not b or not isinstance(a, list), path
        assert len(a) == len(b), path
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{path}[{k}]")
    else:
        assert differences(bits(a), bits(b)) == [], path


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.builds(lambda n: torch.arange(float(n)), st.integers(0, 4)),
    st.builds(lambda n: nn.Parameter(torch.arange(float(n))), st.integers(0, 4)),
    st.builds(np.arange, st.integers(0, 3)),
)
names = st.one_of(st.text(max_size=3), st.integers(), st.tuples(st.integers(), st.text(max_size=1)))
states = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(names, inner, max_size=4),
        st.dictionaries(names, inner, max_size=4).map(collections.OrderedDict),
    ),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(states)
def test_any_state_comes_back(state):
    built, tensors, tree = round_trip(state)
    assert_same(state, built)
    found = dict(paths(tree, "state"))
    assert sorted(found) == list(range(len(tensors)))
    for number, path in found.items():
        assert eval(path, {"state": state}) is tensors[number]  # a path is the Python that leads there


@settings(max_examples=100, deadline=None)
@given(states, st.sampled_from(MODES))
def test_any_state_is_restored_from_any_mode(state, mode):
    """Whatever a `state_dict` returns, its `load_state_dict` gets equal and its own."""

    class Holder:
        def state_dict(self):
            return state

        def load_state_dict(self, loaded):
            self.loaded = loaded

    holder, wanted = Holder(), bits(copy.deepcopy(state))
    snapshot = tc.History(holder=holder, rng=False, mode=mode).take()
    ruin(state)
    snapshot.restore()
    assert differences(bits(holder.loaded), wanted) == []
    ruin(holder.loaded)
    assert differences(bits(snapshot.state("holder")), wanted) == []


def ruin(x):
    """Writes to all in it that can be written."""
    if isinstance(x, torch.Tensor):
        x.data.fill_(-9)
    elif isinstance(x, np.ndarray):
        x.fill(-9)
    elif isinstance(x, dict):
        for value in x.values():
            ruin(value)
        x.clear()
    elif isinstance(x, (list, tuple)):
        for value in x:
            ruin(value)
        if isinstance(x, list):
            x.append("ruined")


def test_a_state_dict_has_its_metadata():
    model = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
    built, tensors, _ = round_trip(model.state_dict())
    assert built._metadata == model.state_dict()._metadata
    assert built._metadata is not model.state_dict()._metadata
    assert len(tensors) == 7
    built, tensors, _ = round_trip({"state_dict": model.state_dict(), "n": 1})
    assert built["state_dict"]._metadata == model.state_dict()._metadata


def test_values_of_other_classes_are_copies():
    state = {
        "counts": collections.Counter("aab"),
        "default": collections.defaultdict(list, a=[1]),
        "past": collections.deque([torch.ones(2)], maxlen=3),
        "point": Point(torch.ones(2), [3]),
        "statistics": Statistics(torch.ones(2), ["a"]),
        "set": {1, 2},
        "colour": Colour.RED,
        "dtype": torch.float16,
        "size": torch.Size([2, 3]),
        "bytes": bytearray(b"ab"),
    }
    wanted = copy.deepcopy(state)
    tree = take_apart(state, tensors := [], "state")
    state["counts"]["a"] = state["default"]["a"] = 9
    state["past"][0].zero_()
    state["point"].x.zero_()
    state["point"].y.append(4)
    state["statistics"].mean.zero_()
    state["set"].add(3)
    state["bytes"].extend(b"cd")
    for _ in range(2):
        built = put_together(tree, tensors)
        assert [type(x) for x in built.values()] == [type(x) for x in wanted.values()]
        for name in ("counts", "default", "set", "colour", "dtype", "size", "bytes"):
            assert built[name] == wanted[name], name
        assert built["past"].maxlen == 3
        assert built["past"][0].tolist() == built["point"].x.tolist() == built["statistics"].mean.tolist() == [1, 1]
        assert built["point"].y == [3]
        built["past"][0].zero_()
        built["set"].clear()
        built["statistics"].names.clear()
        built["default"]["a"].clear()


@pytest.mark.parametrize("state", [{}, [], (), {"a": {}}, [[], ()], {"a": [], "b": collections.OrderedDict()}])
def test_empty_containers(state):
    built, tensors, _ = round_trip(state)
    assert_same(state, built)
    assert tensors == []


def test_an_empty_container_with_attributes():
    state = collections.OrderedDict()
    state._metadata = {"": {"version": 1}}
    built, _, _ = round_trip(state)
    assert built == {}
    assert built._metadata == {"": {"version": 1}}


def test_a_tensor_that_is_there_twice_is_held_once():
    shared = torch.ones(100)
    snapshot = tc.History(values={"a": shared, "b": [shared, shared[:50]]}, rng=False).take()
    assert len(snapshot._tensors()) == 2
    assert len({t.untyped_storage().data_ptr() for t in snapshot._tensors()}) == 1
    state = snapshot.state("values")
    assert state["a"] is state["b"][0]
    state["a"].zero_()
    assert state["b"][1].sum() == 0
    assert shared.sum() == 100
    assert snapshot.state("values")["a"].sum() == 100


@pytest.mark.parametrize("mode", MODES)
def test_what_tensors_in_other_classes_hold_is_counted(mode):
    """They are copied at once in every mode: no live tensor has their bytes."""
    values = {
        "past": collections.deque([torch.ones(1000)]),
        "statistics": Statistics(torch.ones(1000), []),
        "default": collections.defaultdict(list, a=[torch.ones(1000)]),
        "point": Point(torch.ones(1000), 1),
        "array": np.ones(1000),
    }
    history = tc.History(values=values, rng=False, mode=mode)
    history.take().wait()
    assert history.nbytes == 4 * 4000 + 8000
    history.take().wait()
    assert history.nbytes == 2 * (4 * 4000 + 8000)
    assert history.report().snapshots[0].nbytes == 4 * 4000 + 8000


def test_containers_inside_each_other_without_end():
    state = {}
    inner = state
    for _ in range(150):
        inner["a"] = {"t": torch.ones(1), "x": 1}
        inner = inner["a"]
    built, tensors, _ = round_trip(state)
    assert_same(state, built)
    assert len(tensors) == 150
    inner["a"] = state
    with pytest.raises(tc.InputError, match=r"^the state at state.*… holds itself, or 200 containers"):
        take_apart(state, [], "state")
