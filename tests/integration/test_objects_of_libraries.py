"""Objects of the standard library, of PyTorch and of libraries around it: copied as by `copy.deepcopy`, or refused.

A copy has the objects that a deep copy has, of the same types and in the same order, and memory of its own.
"""

import collections
import contextvars
import copy
import dataclasses
import decimal
import enum
import functools
import pathlib
import re
import types
import typing
import unittest.mock
import weakref

import attrs
import numpy as np
import pydantic
import pytest
import torch
import torch.distributions as distributions
import transformers
from torch import Tensor, nn
from torch.utils import data
from transformers.modeling_outputs import BaseModelOutput

import torchcopy as tc
from torchcopy.copying.objects.object_paths import held_objects

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.jit"),
]


def ones(*shape):
    return torch.ones(shape or (2,))


# --- classes that make it hard --------------------------------------------------------------------------------


class GuardedSlots:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        object.__setattr__(self, "a", a)
        object.__setattr__(self, "b", b)

    def __setattr__(self, name, value):
        raise AttributeError(f"{name} is fixed")


class GuardedDict:
    def __init__(self, a):
        self.__dict__["a"] = a

    def __setattr__(self, name, value):
        raise AttributeError(f"{name} is fixed")


class NoEquality(type):
    def __eq__(cls, other):
        raise RuntimeError("classes do not compare")

    __hash__ = type.__hash__


class OfNoEquality(metaclass=NoEquality):
    def __init__(self):
        self.a = ones()


class AnswersToAnyName:
    def __init__(self):
        self.a = ones()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args: 42


class NeitherEqualNorTrue:
    __hash__ = None

    def __init__(self):
        self.a = ones()

    def __eq__(self, other):
        raise RuntimeError("no equality")

    def __bool__(self):
        raise RuntimeError("no truth")

    def __len__(self):
        raise RuntimeError("no length")


class DictIsAProperty:
    __slots__ = ("a", "hidden")

    def __init__(self):
        self.a, self.hidden = ones(), [ones()]

    @property
    def __dict__(self):
        return {"a": self.a}


class AsksItsLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.layer, name)


class Color(enum.Enum):
    RED = 1
    GREEN = (2, 3)


class Pair(typing.NamedTuple):
    a: Tensor
    b: object = None


@pydantic.dataclasses.dataclass(config=pydantic.ConfigDict(arbitrary_types_allowed=True))
class PydanticDataclass:
    a: Tensor


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    a: Tensor
    parts: list = []
    _note: object = pydantic.PrivateAttr(default=None)


class FrozenModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True, frozen=True, extra="allow")
    a: Tensor


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    a: Tensor
    b: list


class Key:
    pass


class Rows(data.Dataset):
    def __init__(self):
        self.rows = ones(4, 2)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.rows[index]


class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("shift", ones())

    def forward(self, x):
        return self.layer(x) + self.shift


def doubled(x: torch.Tensor):
    return x * 2


# --- of other libraries ---------------------------------------------------------------------------------------


def attrs_objects():
    fields = {"a": attrs.field(), "b": attrs.field(default=None)}
    classes = [
        attrs.make_class("Slots", fields, slots=True),
        attrs.make_class("Frozen", fields, slots=True, frozen=True),
        attrs.make_class("Plain", fields, slots=False),
        attrs.make_class("FrozenPlain", fields, slots=False, frozen=True),
    ]
    shared = ones()
    return [cls(shared, [ones(), shared]) for cls in classes]


def tensordicts():
    import tensordict

    @tensordict.tensorclass
    class Batch:
        a: Tensor
        text: str = "x"

    nested = tensordict.TensorDict({"a": ones(3, 2), "n": {"b": ones(3)}, "text": "what"}, batch_size=[3])
    stacked = [tensordict.TensorDict({"a": ones(n)}, []) for n in (2, 3)]
    return [
        nested,
        nested.clone().lock_(),
        tensordict.LazyStackedTensorDict(*stacked, stack_dim=0),
        tensordict.TensorDictParams(tensordict.TensorDict({"a": ones(3)}, [])),
        Batch(a=ones(3), text="hello", batch_size=[3]),
    ]


def cache():
    held = transformers.DynamicCache()
    held.update(ones(1, 2, 3, 4), ones(1, 2, 3, 4), 0)
    return held


def weak_keys():
    key = Key()
    return key, weakref.WeakKeyDictionary({key: ones()})


def array_of_objects():
    array = np.empty(2, dtype=object)
    array[0], array[1] = ones(), [ones()]
    return array


def records_of_objects():
    array = np.zeros(2, dtype=[("number", "i4"), ("held", object)])
    array["held"][0], array["held"][1] = ones(), None
    return array


def kinds_of_distributions():
    normal = distributions.Normal(ones(), ones())
    correlated = distributions.MultivariateNormal(ones(), torch.eye(2))
    correlated.precision_matrix  # worked out, and kept  # noqa: B018
    return [
        normal,
        correlated,
        distributions.TransformedDistribution(normal, [distributions.AffineTransform(ones(), ones())]),
        distributions.MixtureSameFamily(distributions.Categorical(ones()), normal),
        distributions.Independent(distributions.Normal(ones(), ones()), 1),
    ]


def partial_with_tensors():
    return functools.partial(torch.add, ones(), alpha=ones())


OBJECTS = {
    "attrs": attrs_objects,
    "tensordict": tensordicts,
    "pydantic": lambda: [Model(a=ones(), parts=[ones()]), FrozenModel(a=ones(), more=ones())],
    "pydantic dataclass": lambda: PydanticDataclass(ones()),
    "BatchEncoding": lambda: transformers.BatchEncoding({"input_ids": ones(2, 3), "mask": ones(2, 3)}),
    "ModelOutput": lambda: BaseModelOutput(last_hidden_state=ones(1, 2), hidden_states=(ones(1), ones(1))),
    "DynamicCache": cache,
    "EncoderDecoderCache": lambda: transformers.EncoderDecoderCache(cache(), cache()),
    "configuration": lambda: [transformers.PretrainedConfig(num_labels=4), transformers.GenerationConfig(), ones()],
    "slots that refuse": lambda: GuardedSlots(ones(), [ones()]),
    "attributes that refuse": lambda: GuardedDict(ones()),
    "frozen dataclass with slots": lambda: FrozenSlots(ones(), [ones()]),
    "metaclass without equality": OfNoEquality,
    "any name": AnswersToAnyName,
    "no equality, truth, length": NeitherEqualNorTrue,
    "`__dict__` is a property": DictIsAProperty,
    "module with `__getattr__`": AsksItsLayer,
    "enum": lambda: [Color.RED, Color.GREEN, {Color.RED: ones()}],
    "NamedTuple": lambda: Pair(ones(), [ones()]),
    "Mock": lambda: [unittest.mock.Mock(a=ones()), unittest.mock.Mock(spec=nn.Linear), unittest.mock.sentinel.x],
    "MagicMock": lambda: unittest.mock.MagicMock(a=ones()),
    "WeakKeyDictionary": weak_keys,
    "array of objects": array_of_objects,
    "records of objects": records_of_objects,
    "Dataset": lambda: [Rows(), data.TensorDataset(ones(4), ones(4)), data.ConcatDataset([Rows(), Rows()])],
    "Subset": lambda: data.Subset(Rows(), [0, 1]),
    "DataLoader": lambda: data.DataLoader(Rows(), batch_size=2, shuffle=True, generator=torch.Generator()),
    "sampler": lambda: data.WeightedRandomSampler(ones(3), 2),
    "PackedSequence": lambda: nn.utils.rnn.pack_sequence([ones(3, 2), ones(2, 2)]),
    "distributions": kinds_of_distributions,
    "partial": partial_with_tensors,
    "SimpleNamespace": lambda: types.SimpleNamespace(a=ones(), b=[ones()]),
    "plain values": lambda: [
        *(pathlib.PurePosixPath("a"), re.compile("a"), decimal.Decimal("1.5")),
        *(..., NotImplemented, int, len, typing.TypeVar("T"), list[int], slice(1, 2), ones()),
    ],
    "Counter": lambda: [collections.Counter("aab"), ones()],
    "ChainMap": lambda: collections.ChainMap({"a": ones()}, {"b": ones()}),
    "UserDict": lambda: [collections.UserDict(a=ones()), collections.UserList([ones()])],
    "deque": lambda: collections.deque([ones()], maxlen=3),
    "iterator": lambda: iter([ones(), ones()]),
    "exception": lambda: ValueError("a", ones()),
    "script": lambda: torch.jit.script(Affine()),
    "script in a module": lambda: nn.Sequential(torch.jit.script(Affine()), nn.Linear(2, 2)),
    "fx": lambda: torch.fx.symbolic_trace(Affine()),
}


def kinds(x):
    return [kind(held) for held in held_objects(x)]


def kind(x):
    return type(x).__module__, type(x).__qualname__  # mocks and traced modules have a class each


def tensors_of(x):
    return list(dict.fromkeys(t for t in held_objects(x) if isinstance(t, Tensor)))


def written(t, value):
    with torch.no_grad():
        t.fill_(value)


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_is_copied_as_deepcopy_does(name, make):
    source = OBJECTS[name]()
    copied = make(source)
    assert kind(copied) == kind(source)
    try:
        deep = copy.deepcopy(source)
    except AttributeError:
        assert name == "slots that refuse"
        deep = source
    if not name.startswith("script"):  # a deep copy of these has no Python attributes of theirs; nor has ours
        assert kinds(copied) == kinds(deep)
    sources, copies = tensors_of(source), tensors_of(copied)
    assert len(sources) == len(copies) > 0
    assert {id(t) for t in sources}.isdisjoint(map(id, copies))
    for s, c in zip(sources, copies, strict=True):
        assert (type(c), c.shape, c.requires_grad) == (type(s), s.shape, s.requires_grad)
        assert torch.equal(s, c)
    for number, (s, c) in enumerate(zip(sources, copies, strict=True)):
        written(s, 50 + number)
        assert not (c == 50 + number).any()
        written(c, 90 + number)
        assert not (s == 90 + number).any()


def test_arrays_of_numpy_of_every_kind():
    source = {
        "masked": np.ma.masked_array([1.0, 2.0], mask=[False, True]),
        "records": np.array([(1, 2.0)], dtype=[("x", "i4"), ("y", "f8")]),
        "recarray": np.rec.array([(1, 2.0)], dtype=[("x", "i4"), ("y", "f8")]),
        "overlapping": np.lib.stride_tricks.sliding_window_view(np.arange(4.0), 2),
        "scalars": [np.float32(1), np.datetime64("2020-01-01")],
    }
    copied = tc.copy(source)
    deep = copy.deepcopy(source)
    for name in ("masked", "records", "recarray", "overlapping"):
        assert type(copied[name]) is type(source[name])
        assert copied[name].dtype == source[name].dtype
        assert copied[name].tolist() == deep[name].tolist()
        assert not np.shares_memory(copied[name], source[name])
    assert copied["scalars"] == source["scalars"]
    source["masked"][0], source["masked"].mask[1] = 9, False
    assert copied["masked"].tolist() == [1, None]
    copied["records"]["x"] = 5
    assert source["records"].tolist() == [(1, 2.0)]


def test_what_a_record_holds_is_named_and_found():
    source = records_of_objects()
    source["held"][1] = [contextvars.ContextVar("v")]
    with pytest.raises(tc.CopyError, match=r"`obj\['held'\]\[1\]\[0\]` "):
        tc.copy(source)
    nested = np.zeros(1, dtype=[("outer", [("inner", object, (2,))])])
    doubled_ = ones().requires_grad_() * 2  # which `copy.deepcopy` refuses
    nested["outer"]["inner"][0, 0] = nested["outer"]["inner"][0, 1] = doubled_
    copied = tc.copy(nested)["outer"]["inner"][0]
    assert copied[0] is copied[1]
    written(doubled_, 5)
    assert copied[0].tolist() == [2, 2]
    written(copied[0], 6)
    assert doubled_.tolist() == [5, 5]


def test_random_numbers_go_on_alike():
    source = [np.random.default_rng(0), np.random.RandomState(0), torch.Generator().manual_seed(3)]
    copied = tc.copy(source)
    for draw in (
        lambda r: r[0].random(3).tolist(),
        lambda r: r[1].rand(3).tolist(),
        lambda r: torch.rand(3, generator=r[2]).tolist(),
    ):
        drawn = draw(source)
        assert draw(copied) == drawn
        assert draw(source) != drawn


def test_weak_values_are_the_sources_as_with_deepcopy():
    held = ones()
    source = held, weakref.WeakValueDictionary({"a": held})
    with pytest.warns(tc.EscapeWarning, match="weak reference"):
        copied = tc.copy(source)
    assert copied[1]["a"] is held
    assert copy.deepcopy(source)[1]["a"] is held
    held.zero_()
    assert copied[0].tolist() == [1, 1]
    copied[0].fill_(3)
    assert held.tolist() == [0, 0]


# --- TorchScript ----------------------------------------------------------------------------------------------


def scripted(kind):
    return torch.jit.script(Affine()) if kind == "script" else torch.jit.trace(Affine(), ones(1, 2))


@pytest.mark.parametrize("kind", ["script", "trace"])
def test_a_scripted_module_trains_with_its_optimizer(kind):
    source = scripted(kind)
    optimizer = torch.optim.SGD(source.parameters(), lr=0.1)
    once = tc.copy((source, optimizer))
    for copied, its_optimizer in (once, tc.copy(tc.copy(once))):
        assert its_optimizer.param_groups[0]["params"][0] is copied.layer.weight
        before, ours = source.layer.weight.detach().clone(), copied.layer.weight.detach().clone()
        copied(ones(1, 2)).sum().backward()
        its_optimizer.step()
        assert not torch.equal(copied.layer.weight, ours)
        assert torch.equal(source.layer.weight, before)
        now = copied.layer.weight.detach().clone()
        source(ones(1, 2)).sum().backward()
        optimizer.step()
        assert not torch.equal(source.layer.weight, before)
        assert torch.equal(copied.layer.weight, now)


@pytest.mark.parametrize("kind", ["script", "trace"])
def test_options_reach_the_tensors_of_a_scripted_module(kind):
    source = scripted(kind)
    doubled_ = tc.copy(source, dtype=torch.float64)
    assert doubled_(ones(1, 2).double()).dtype == torch.float64
    assert {t.dtype for t in source.parameters()} == {torch.float32}
    assert {t.device.type for t in tc.copy(source, device="meta").state_dict().values()} == {"meta"}
    assert not any(p.requires_grad for p in tc.copy(source, requires_grad=False).parameters())
    shared = tc.copy(source, memory="share")
    written(source.shift, 7)
    assert shared.shift.tolist() == [7, 7]
    assert doubled_.shift.tolist() == [1, 1]


def test_a_weight_tied_to_a_scripted_one_stays_tied():
    inner, outer = torch.jit.script(Affine()), nn.Linear(2, 2)
    outer.weight = inner.layer.weight
    copied = tc.copy(nn.ModuleList([outer, inner]))
    assert copied[0].weight is copied[1].layer.weight
    written(outer.weight, 5)
    assert not (copied[0].weight == 5).any()
    written(copied[0].weight, 6)
    assert set(copied[1].layer.weight.flatten().tolist()) == {6}
    assert set(inner.layer.weight.flatten().tolist()) == {5}


@pytest.mark.parametrize("kind", ["script", "trace"])
def test_a_scripted_module_computes_what_its_source_does(kind):
    source = scripted(kind)
    copied = tc.copy(source)
    expected = source(ones(1, 2)).tolist()
    written(source.shift, 30)
    assert copied(ones(1, 2)).tolist() == expected
    after = source(ones(1, 2)).tolist()
    written(copied.shift, 60)
    assert source(ones(1, 2)).tolist() == after


def test_a_scripted_function_is_kept_as_functions_are():
    function = torch.jit.script(doubled)
    source = {"f": function, "a": ones()}
    copied = tc.copy(source)
    assert copied["f"] is function
    source["a"].zero_()
    assert copied["f"](copied["a"]).tolist() == [2, 2]


# --- others of PyTorch ----------------------------------------------------------------------------------------


def test_limits_of_dtypes_are_their_own_copies():
    source = [torch.finfo(torch.float32), torch.iinfo(torch.int8), ones()]
    copied = tc.copy(source)
    assert copied[:2] == source[:2]
    source[2].zero_()
    assert copied[2].tolist() == [1, 1]


def test_packed_sequences_keep_their_sizes_on_the_host():
    source = nn.utils.rnn.pack_sequence([ones(3, 2), ones(2, 2)])
    copied = tc.copy({"x": source}, device="meta")["x"]
    assert copied.data.device.type == "meta"
    assert copied.batch_sizes.tolist() == [2, 2, 1]
    source.batch_sizes.zero_()
    assert copied.batch_sizes.tolist() == [2, 2, 1]
    copied.batch_sizes.fill_(1)
    assert source.batch_sizes.tolist() == [0, 0, 0]


# --- what cannot be copied ------------------------------------------------------------------------------------


REFUSED = {
    "ContextVar": lambda: contextvars.ContextVar("v"),
    "mappingproxy": lambda: types.MappingProxyType({"a": ones()}),
    "view of a dict": lambda: {"a": ones()}.values(),
    "WeakMethod": lambda: weakref.WeakMethod(nn.Linear(2, 2).forward),
    "iterator of a DataLoader": lambda: iter(data.DataLoader(Rows())),
    "Future": torch.futures.Future,
    "node of a graph": lambda: (ones().requires_grad_() * 2).grad_fn,
    "memoryview": lambda: memoryview(b"a"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_copied_is_refused_in_one_line(name):
    culprit = REFUSED[name]()
    source = {"w": ones(), "rest": [1, culprit]}
    with pytest.raises(tc.CopyError, match=r"^`obj\['rest'\]\[1\]` .* cannot be copied.*`share=\(") as caught:
        tc.copy(source)
    assert "\n" not in str(caught.value)
    copied = tc.copy(source, share=(culprit,))
    assert copied["rest"][1] is culprit
    source["w"].zero_()
    assert copied["w"].tolist() == [1, 1]
    copied["w"].fill_(3)
    assert source["w"].tolist() == [0, 0]


class LooksForItself:
    def __init__(self):
        self.a = ones()

    def __getattr__(self, name):
        return getattr(self.inner, name)


class NumberForAnyName:
    def __init__(self):
        self.a = ones()

    def __getattr__(self, name):
        return 42


class FailsToBeMade:
    def __reduce__(self):
        return _fail, (ones(),)


def _fail(held):
    raise ValueError("not made")


class FailsToCopy:
    def __deepcopy__(self, memo):
        return copy.deepcopy([FailsToBeMade()], memo)


@pytest.mark.parametrize(
    ("cls", "error"),
    [
        (LooksForItself, RecursionError),
        (NumberForAnyName, TypeError),
        (FailsToBeMade, ValueError),
        (FailsToCopy, ValueError),
    ],
)
def test_what_its_class_raises_says_where(cls, error):
    source = {"w": ones(), "rest": [1, cls()]}
    with pytest.raises(error):
        copy.deepcopy(source)
    with pytest.raises(error) as caught:
        tc.copy(source)
    (note,) = caught.value.__notes__
    assert re.search(rf"`obj\['rest'\]\[1\]` \(\S*\.{cls.__name__}\)", note)
    source["rest"].pop()
    copied = tc.copy(source)
    source["w"].zero_()
    assert copied["w"].tolist() == [1, 1]
