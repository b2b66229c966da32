"""Values go through files as exactly what they were, and what cannot is refused by its path, before anything is."""

import collections
import datetime
import math
import random

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import torchcopy as tc
from torchcopy.history.files import values

_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=1 << 3000, max_value=1 << 3001)
    | st.floats()
    | st.text(max_size=8)
    | st.text(alphabet=st.characters(categories=["Cs", "Cc"]), max_size=3)
    | st.binary(max_size=8)
    | st.complex_numbers()
    | st.builds(np.float64, st.floats())
    | st.builds(np.int16, st.integers(-100, 100))
    | st.sampled_from([torch.float16, torch.device("cpu"), torch.Size([2, 0]), torch.channels_last, ..., range(3)])
)  # fmt: skip
_KEYS = (
    st.text(max_size=5) | st.integers() | st.booleans() | st.tuples(st.integers(), st.text(max_size=2)) | st.none()
)


def _tensors(draw_dtype):
    shapes = st.lists(st.integers(0, 3), max_size=3)
    return st.builds(
        lambda shape, dtype: torch.arange(math.prod(shape)).reshape(shape).to(dtype), shapes, draw_dtype
    )


_TENSORS = _tensors(st.sampled_from([torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64]))
_ARRAYS = st.builds(
    lambda n, dtype: np.arange(n).astype(dtype), st.integers(0, 5), st.sampled_from("f4 i8 ? U3 c16".split())
)
_SETS = st.frozensets(st.integers() | st.text(max_size=3), max_size=3)


def _containers(children):
    return (
        st.lists(children, max_size=4)
        | st.lists(children, max_size=4).map(tuple)
        | st.dictionaries(_KEYS, children, max_size=4)
        | st.dictionaries(_KEYS, children, max_size=4).map(collections.OrderedDict)
        | st.lists(children, max_size=3).map(lambda items: collections.deque(items, maxlen=7))
        | st.dictionaries(_KEYS, children, max_size=3).map(lambda d: collections.defaultdict(list, d))
        | _SETS
        | _SETS.map(set)
        | st.dictionaries(st.text(max_size=2), st.integers(), max_size=3).map(collections.Counter)
    )


_TREES = st.recursive(_LEAVES | _TENSORS | _ARRAYS, _containers, max_leaves=20)


def same(a, b):
    """Equal in types, order, bits and layout, whatever they hold."""
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        assert torch.equal(_bits(a), _bits(b))
    elif isinstance(a, np.ndarray | np.generic):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes()
    elif isinstance(a, dict):
        assert len(a) == len(b)
        for (j, x), (k, y) in zip(a.items(), b.items(), strict=True):
            same(j, k)
            same(x, y)
        same(getattr(a, "__dict__", None), getattr(b, "__dict__", None))
        assert getattr(a, "default_factory", None) is getattr(b, "default_factory", None)
    elif isinstance(a, list | tuple | collections.deque):
        assert len(a) == len(b)
        assert getattr(a, "maxlen", None) == getattr(b, "maxlen", None)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, float):
        assert math.copysign(1, a) == math.copysign(1, b) or math.isnan(a)
        assert a == b or (math.isnan(a) and math.isnan(b))
    elif isinstance(a, complex):
        same((a.real, a.imag), (b.real, b.imag))
    else:
        assert a == b


def _bits(t):
    t = t.contiguous()
    return torch.view_as_real(t).view(torch.uint8) if t.is_complex() else t.reshape(-1).view(torch.uint8)


def _saved_and_loaded(tmp_path, rng=False, **objects):
    snapshot = tc.History(**objects, rng=rng).take(step=1)
    snapshot.save(tmp_path / "snapshot")
    return snapshot, tc.Snapshot.load(tmp_path / "snapshot")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=_TREES)
def test_any_tree_comes_back_as_it_was(tmp_path, tree):
    snapshot, loaded = _saved_and_loaded(tmp_path, tree={"it": tree})
    same(snapshot.state("tree"), loaded.state("tree"))
    same({"it": tree}, loaded.state("tree"))


def test_labels_come_back_as_they_were(tmp_path):
    labels = {
        "a": 1,
        "b": math.nan,
        "c": -math.inf,
        "d": "é\ud800",
        "e": None,
        "f": True,
        "h": -0.0,
    }
    tc.History(x=torch.ones(2)).take(**labels).save(tmp_path / "s")
    same(tc.Snapshot.load(tmp_path / "s").labels, labels)


@pytest.mark.parametrize(
    "value",
    [
        {float("nan"): 1, float("nan"): 2},
        dict.fromkeys([(1, float("nan")), (1, float("nan"))], 2),
        collections.Counter({float("nan"): 1, complex(0, math.nan): 2, complex(0, math.nan): 3}),
        [np.str_(""), np.bytes_(b""), np.str_("é\0x"), np.array(["", "a"]), np.zeros((2, 0), "U3")],
    ],
    ids=str,
)
def test_what_is_equal_to_nothing_and_what_is_empty_comes_back(tmp_path, value):
    snapshot, loaded = _saved_and_loaded(tmp_path, it={"it": value})
    same({"it": value}, loaded.state("it"))
    same(snapshot.state("it"), loaded.state("it"))


def test_sets_of_two_nans_come_back(tmp_path):
    value = [{float("nan"), float("nan")}, frozenset({float("nan"), np.float64("nan")})]
    _, loaded = _saved_and_loaded(tmp_path, it={"it": value})
    for expected, found in zip(value, loaded.state("it")["it"], strict=True):
        assert type(found) is type(expected)
        assert sorted(type(x).__name__ for x in found) == sorted(type(x).__name__ for x in expected)
        assert all(math.isnan(x) for x in found)


@pytest.mark.parametrize("kind", ["snapshot", "history"])
def test_what_could_not_be_loaded_is_not_put_in_the_place_of_what_can(tmp_path, monkeypatch, kind):
    """An encoder that writes what no decoder reads."""
    state = {"n": np.float32(1.0), "a": np.arange(3), "t": torch.ones(2)}
    history = tc.History(v=state, rng=False)
    place = tmp_path / "s"
    saved = history.take(step=0) if kind == "snapshot" else history
    history.take(step=1)
    saved.save(place)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    monkeypatch.setattr(values.ValueEncoder, "_scalar", lambda *_: {"scalar": "<f4", "bytes": "00"})
    state["n"] = np.float32(2.0)
    newer = history.take(step=2)
    with pytest.raises(tc.InputError, match=r"nothing was saved, as it could not be loaded: .* is no number"):
        (newer if kind == "snapshot" else history).save(place)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
    assert list(tmp_path.iterdir()) == [place]


def test_random_states_come_back_as_what_they_were(tmp_path):
    generators = {"a": torch.Generator(), "b": np.random.default_rng(3), "c": np.random.RandomState(4)}

    def drawn():
        return [
            *(torch.rand(3, generator=generators["a"]), generators["b"].random(3), generators["c"].rand(3)),
            *(torch.rand(3), np.random.rand(3), np.array(random.random())),  # the shared ones
        ]

    history = tc.History(**generators)
    history.take()
    history.save(tmp_path / "h")
    expected = drawn()
    assert not np.array_equal(expected[0], drawn()[0])
    tc.History.load(tmp_path / "h", **generators)[0].restore()
    for x, y in zip(expected, drawn(), strict=True):
        assert np.array_equal(x, y)


def test_arrays_come_back_in_their_order_and_can_be_written(tmp_path):
    arrays = {
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "gaps": np.arange(10)[::3],
        "scalar": np.array(3),
        "empty": np.empty((0, 4)),
        "dates": np.array(["2020-01-01", "NaT"], "M8[D]"),
        "swapped": np.arange(3, dtype=">i4"),
        "half": np.array([1.5], "f2"),
    }
    for a in arrays.values():
        a.flags.writeable = False
    _, loaded = _saved_and_loaded(tmp_path, arrays=arrays)
    state = loaded.state("arrays")
    for name, a in arrays.items():
        same(a, state[name])
        state[name][...] = np.zeros((), a.dtype)  # what is handed out is the caller's
    same(loaded.state("arrays")["half"], arrays["half"])


class _Thing:
    pass


def _deep():
    deep = []
    for _ in range(150):
        deep = [deep, 0, torch.ones(1)]
    return deep


REFUSED = {
    "object": (_Thing, "a test_files_values._Thing, which JSON cannot hold"),
    "function": (lambda: math.sin, "a builtin_function_or_method, which JSON cannot hold"),
    "date": (lambda: datetime.date(2020, 1, 1), "a datetime.date, which JSON cannot hold"),
    "factory": (lambda: collections.defaultdict(_Thing), "a defaultdict of"),
    "key": (lambda: {datetime.date(2020, 1, 1): 1}, "the key datetime.date(2020, 1, 1): a datetime.date"),
    "sparse": (lambda: torch.ones(2, 2).to_sparse(), "a sparse_coo tensor, which safetensors cannot hold"),
    "compressed": (lambda: torch.eye(2).to_sparse_csr(), "a sparse_csr tensor, which safetensors cannot hold"),
    "bits": (lambda: torch.empty(2, dtype=torch.uint4), "uint4, which safetensors cannot hold"),
    "objects": (lambda: np.array([None, 1]), "a NumPy array of object"),
    "records": (lambda: np.zeros(2, [("a", "f4")]), "a NumPy array of [('a', '<f4')]"),
    "exception": (lambda: ValueError("x"), "a ValueError, which JSON cannot hold"),
    "deep": (_deep, "more than 100 containers inside each other"),
    "in a deque": (lambda: collections.deque([_Thing()]), "['in a deque'][0]: a test_files_values._Thing"),
    "in a set": (lambda: {_Thing()}, "a test_files_values._Thing"),
    "gaps": (lambda: [(b := torch.zeros(10**6))[::1000], b[5:6]], "a view with far more memory between"),
}


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_what_no_file_can_hold_is_refused_by_its_path(tmp_path, name):
    make, why = REFUSED[name]
    snapshot = tc.History(state={name: make()}).take()
    with pytest.raises(tc.InputError, match=r"^nothing was saved") as caught:
        snapshot.save(tmp_path / "s")
    message = str(caught.value)
    assert why in message
    assert f"state['{name}']" in message
    assert "\n" not in message or name == "gaps"  # two tensors, a line each
    assert list(tmp_path.iterdir()) == []


def test_everything_that_is_refused_is_listed_and_what_was_there_stays(tmp_path):
    good = tc.History(state={"a": 1}).take()
    good.save(tmp_path / "s")
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, _Rate())
    bad = {"a": _Thing(), "b": [torch.ones(2), torch.eye(2).to_sparse(), {3: _Thing()}]}
    snapshot = tc.History(state=bad, scheduler=scheduler).take()
    with pytest.raises(tc.InputError, match="nothing was saved, as 4 things cannot be:") as caught:
        snapshot.save(tmp_path / "s")
    paths = {line.split(":")[0].strip() for line in str(caught.value).splitlines()[1:]}
    expected = {"state['a']", "state['b'][1]", "state['b'][2][3]", "scheduler['lr_lambdas'][0]['made']"}
    assert paths == expected
    assert tc.Snapshot.load(tmp_path / "s").state("state") == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


class _Rate:
    def __init__(self):
        self.made = lambda step: step

    def __call__(self, step):
        return 1.0
