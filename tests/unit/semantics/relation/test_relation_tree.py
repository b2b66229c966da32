from __future__ import annotations

import collections
import copy
import dataclasses
import json
import types
from typing import NamedTuple

import pytest
import torch
from torch import nn

from torchcopy import InputError, _torch_private
from torchcopy.semantics.relation import paths as path_module
from torchcopy.semantics.relation import relate
from torchcopy.semantics.relation.paths import tensors_in


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.emb.weight


def trained():
    net = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return net, optimizer


def vectors(count):
    return {f"k{k}": torch.full((2,), float(k)) for k in range(count)}


# --- paths --------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


@dataclasses.dataclass
class State:
    weights: object
    step: int = 0


def paths(container):
    return [found.path for found in tensors_in(container, "a")]


T = torch.ones(1)


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        pytest.param({"x": T, 3: [T, (T,)]}, ["['x']", "[3][0]", "[3][1][0]"], id="dict-list-tuple"),
        pytest.param(Point(T, T), [".x", ".y"], id="namedtuple"),
        pytest.param(State({"w": T}), [".weights['w']"], id="dataclass"),
        pytest.param(types.MappingProxyType({"x": T}), ["['x']"], id="any-mapping"),
        pytest.param(torch.max(torch.ones(2, 2), 0), ["[0]", "[1]"], id="torch-return-type"),
        pytest.param({"a": 1, "b": "text", "c": None, "d": {T.dtype}}, [], id="nothing-but-values"),
        pytest.param({T: T}, ["[<Tensor 0>]"], id="a-tensor-for-a-key"),
        pytest.param({("a", 1): T}, ["[('a', 1)]"], id="a-tuple-for-a-key"),
        pytest.param([collections.OrderedDict(x=T)], ["[0]['x']"], id="ordered-dict"),
    ],
)
def test_paths(container, expected):
    assert paths(container) == expected


def test_paths_of_a_module_are_its_dotted_names():
    assert paths(model()) == [
        ".0.weight",
        ".0.bias",
        ".1.weight",
        ".1.bias",
        ".1.running_mean",
        ".1.running_var",
        ".1.num_batches_tracked",
    ]
    assert paths({"model": Tied()}) == ["['model'].emb.weight", "['model'].head.weight"]


def test_one_parameter_under_two_names_of_one_module():
    net = nn.Module()
    net.a = net.b = nn.Parameter(T)
    net.register_buffer("c", T)
    net.register_buffer("d", T)
    assert paths(net) == [".a", ".b", ".c", ".d"] == ["." + name for name in net.state_dict()]


def test_paths_of_an_optimizer():
    _, optimizer = trained()
    found = paths({"optimizer": optimizer})
    assert found[:2] == ["['optimizer'].param_groups[0]['params'][0]", "['optimizer'].param_groups[0]['params'][1]"]
    assert "['optimizer'].state[1]['exp_avg']" in found


def test_state_of_an_optimizer_that_nests_it():
    weight = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = ((weight - 1) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert ".state[0]['old_dirs'][0]" in paths(optimizer)


def test_what_holds_itself_ends():
    container = {"x": T}
    container["self"] = container
    container["list"] = [container, T]
    assert paths(container) == ["['x']", "['list'][1]"]
    net = nn.Linear(1, 1)
    net.child = nn.Module()
    net.child.parent = net
    assert paths(net) == [".weight", ".bias"]
    assert relate(container, container).summary.pairs == 2


def test_one_container_at_two_paths_is_found_at_both():
    inner = [T]
    assert paths({"a": inner, "b": inner}) == ["['a'][0]", "['b'][0]"]


def test_what_doubles_on_every_level_is_refused(monkeypatch):
    monkeypatch.setattr(path_module, "_MAX_PATHS", 1000)
    container = [T]
    for _ in range(60):
        container = [container, container]
    with pytest.raises(InputError, match=r"^b has more than 1,000 paths"):
        relate([], container)


def test_deep_nesting_without_recursion():
    container = [T]
    for _ in range(5000):
        container = [container]
    assert paths(container) == ["[0]" * 5001]


# --- what is found ------------------------------------------------------------------------------------------


def test_a_module_and_its_state_dict():
    net = model()
    relation = relate(net, net.state_dict())
    assert (relation.summary.pairs, relation.summary.same, relation.only_a, relation.only_b) == (7, 7, (), ())
    assert (relation.pairs[0].path, relation.pairs[0].path_b) == (".0.weight", "['0.weight']")
    total = sum(t.numel() * t.element_size() for t in net.state_dict().values())
    assert relation.shared_bytes == relation.summary.a_bytes == relation.summary.b_bytes == total


def test_a_deepcopy():
    net = model()
    relation = relate(net, copy.deepcopy(net))
    assert relation.summary.separate == relation.summary.pairs == 7
    assert (relation.shared_bytes, relation.summary.all_same_values, relation.crossings) == (0, True, ())


def test_an_optimizer_and_its_state_dict():
    _, optimizer = trained()
    relation = relate(optimizer, optimizer.state_dict())
    assert relation[".state[0]['exp_avg']"].same_tensor
    assert relation.only_a == (".param_groups[0]['params'][0]", ".param_groups[0]['params'][1]")


def test_tied_weights_are_not_counted_twice():
    net = Tied()
    relation = relate(net, net.state_dict())
    assert relation.summary.same == 2
    assert relation.shared_bytes == 5 * 3 * 4
    (crossing,) = relation.crossings
    assert crossing.paths_a == (".emb.weight", ".head.weight")
    assert crossing.paths_b == ("['emb.weight']", "['head.weight']")
    assert (crossing.memory, crossing.shared_bytes) == ("same", 60)


def test_a_base_and_its_views_are_not_counted_twice():
    base = torch.arange(10.0)
    a = {"base": base, "head": base[:4], "tail": base[3:]}
    relation = relate(a, {"base": base[:6], "head": base[:4], "tail": base[:0]})
    assert relation.shared_bytes == 24
    assert relation.summary.a_bytes == 40


def test_memory_shared_across_paths():
    x, y = torch.ones(4), torch.zeros(4)
    relation = relate({"x": x, "y": y}, {"x": y.clone(), "y": y, "z": x[1:]})
    assert [(c.paths_a, c.paths_b, c.memory, c.shared_bytes) for c in relation.crossings] == [
        (("['x']",), ("['z']",), "overlap", 12)
    ]
    assert relation.shared_bytes == 28
    assert relation.crossings_complete


def test_interleaved_tensors_at_two_paths_share_nothing():
    x = torch.ones(10)
    assert relate({"x": x[::2]}, {"y": x[1::2]}).crossings == ()


def test_lazy_memory_shared_across_paths():
    x = torch.ones(4)
    relation = relate({"x": x}, {"y": torch._lazy_clone(x)})
    assert relation.crossings[0].memory == "lazy"
    assert "Across paths, `['x']` of a shares 16 B with `['y']` of b until the first write." in str(relation)
    assert _torch_private.is_lazy(x)


def test_too_many_crossings_are_cut_off(monkeypatch):
    monkeypatch.setattr("torchcopy.semantics.relation.tree._MAX_CROSSINGS", 5)
    x = torch.ones(20)
    views = [x[: k + 1] for k in range(20)]
    relation = relate(views, views)
    assert not relation.crossings_complete
    assert relation.shared_bytes == 80


def test_every_kind_at_once():
    net = {"same": torch.ones(3), "part": torch.ones(4), "lazy": torch.ones(5), "copy": torch.ones(6)}
    other = {
        "same": net["same"].detach(),
        "part": net["part"][1:],
        "lazy": torch._lazy_clone(net["lazy"]),
        "copy": net["copy"].clone(),
    }
    s = relate(net, other).summary
    assert (s.same, s.overlap, s.lazy, s.separate) == (1, 1, 1, 1)
    assert s.shared_bytes == 12 + 12 + 20
    assert s.all_same_values is False  # another shape is another value


def test_missing_paths():
    relation = relate({"x": T, "y": T}, {"y": T, "z": T})
    assert (relation.only_a, relation.only_b) == (("['x']",), ("['z']",))
    with pytest.raises(KeyError):
        relation["['x']"]


def test_gradients_between_containers():
    parameters = [torch.ones(2, requires_grad=True) for _ in range(3)]
    relation = relate(parameters, [p * 2 for p in parameters])
    assert {pair.relation.graph for pair in relation.pairs} == {"a→b"}
    assert "; gradients of b flow back to a." in str(relation)
    mixed = relate(parameters, [parameters[0] * 2, parameters[1].detach() * 2, parameters[2].detach() * 2])
    assert "gradients of b flow back to a at 1 of them." in str(mixed)


# --- what is said -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        pytest.param(
            lambda: (lambda net: (net, net))(nn.Linear(3, 2)),
            "a and b are one object, with 2 tensors (32 B).",
            id="one-object",
        ),
        pytest.param(
            lambda: (lambda net: (net, net.state_dict()))(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))),
            "b shares all 4 tensors with a (56 B): writing one changes the other; gradients do not flow.",
            id="state-dict",
        ),
        pytest.param(
            lambda: (lambda net: (net, copy.deepcopy(net)))(nn.Linear(3, 2)),
            "b is an independent copy of a: both tensors have equal values and no common byte; writing one leaves "
            "the other; gradients do not flow.",
            id="deepcopy",
        ),
        pytest.param(
            lambda: (lambda d: (d, {k: torch._lazy_clone(t) for k, t in d.items()}))(vectors(3)),
            "b is a lazy copy of a: all 3 tensors share their bytes (24 B) until the first write, which copies; "
            "writing one leaves the other.",
            id="lazy",
        ),
        pytest.param(
            lambda: (lambda d: (d, dict(d)))(vectors(3)),
            "b holds the very tensors of a.",
            id="a-shallow-copy",
        ),
        pytest.param(
            lambda: (vectors(3), {k: t + 1 for k, t in vectors(3).items()}),
            "a and b are independent and differ: all 3 tensors have other values and no common byte.",
            id="other-values",
        ),
        pytest.param(
            lambda: (lambda d: (d, {k: t.double() for k, t in d.items()}))(vectors(3)),
            "b is an independent copy of a: all 3 tensors have equal values and no common byte; writing one leaves "
            "the other. All of them differ in dtype (float32 and float64).",
            id="another-dtype",
        ),
        pytest.param(
            lambda: ([torch.ones(2)], [torch._lazy_clone(torch.ones(2)), torch.ones(1)]),
            "At the one path that both have, b is an independent copy of a: the one tensor has equal values and no "
            "common byte; writing one leaves the other. Only b has `[1]`.",
            id="more-in-b",
        ),
        pytest.param(lambda: ([], {}), "a and b hold no tensors.", id="nothing"),
        pytest.param(
            lambda: ({"x": T}, {"y": torch.ones(1)}),
            "a and b have no path in common. Only a has `['x']`. Only b has `['y']`.",
            id="nothing-in-common",
        ),
    ],
)
def test_sentences(make, text):
    assert str(relate(*make())) == text


def test_the_missing_copy_stands_out():
    net = nn.Sequential(collections.OrderedDict(fc=nn.Linear(3, 2), out=nn.Linear(2, 2)))
    best = copy.deepcopy(net)
    best.fc.weight = net.fc.weight
    assert str(relate({"best": net}, {"best": best})) == (
        "3 of 4 tensors are independent copies; `['best'].fc.weight` is the very same tensor; gradients do not "
        "flow between the others."
    )
    best = {k: t.clone() for k, t in net.state_dict().items()} | {"fc.weight": net.state_dict()["fc.weight"]}
    assert str(relate({"best": net.state_dict()}, {"best": best})) == (
        "3 of 4 tensors are independent copies; `['best']['fc.weight']` is the same memory: writing one changes "
        "the other."
    )


def test_at_most_ten_paths_are_named():
    a = vectors(40)
    b = {k: (t if n % 3 else t + 1) for n, (k, t) in enumerate(a.items())}
    text = str(relate(a, b))
    assert text.startswith("26 of 40 tensors are the very same tensors; `['k0']`, `['k3']`")
    assert text.endswith("`['k27']` … and 4 more are independent, with other values.")
    assert text.count("`") == 20
    crowded = str(relate(a, {**b, **{f"x{k}": T for k in range(30)}}))
    assert crowded.count("`") == 20
    assert "Only b has 30 more." in crowded


# --- errors and inputs --------------------------------------------------------------------------------------


def test_errors_carry_the_path():
    lazy_module = {"net": [nn.LazyLinear(3)]}
    with pytest.raises(InputError, match=r"^b\['net'\]\[0\]\.weight is a UninitializedParameter"):
        relate({}, lazy_module)
    with pytest.raises(InputError, match=r"^a\['x'\] has the layout"):
        relate({"x": torch.ones(2).to_mkldnn()}, {})


def test_inputs_are_unchanged():
    net, optimizer = trained()
    lazy = {k: torch._lazy_clone(t) for k, t in net.state_dict().items()}
    tensors = [*net.parameters(), *lazy.values(), *(t for s in optimizer.state.values() for t in s.values())]
    before = [(t._version, t.requires_grad, t.is_leaf, _torch_private.is_lazy(t), t.tolist()) for t in tensors]
    gradients = [p.grad.clone() for p in net.parameters()]
    states = len(optimizer.state)
    relation = relate({"net": net, "opt": optimizer}, {"net": lazy, "opt": copy.deepcopy(optimizer)})
    assert relation["['net'].weight"].memory == "lazy"
    relation.to_svg()
    after = [(t._version, t.requires_grad, t.is_leaf, _torch_private.is_lazy(t), t.tolist()) for t in tensors]
    assert after == before
    assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), gradients, strict=True))
    assert len(optimizer.state) == states


def test_an_optimizer_that_never_stepped_gets_no_state():
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters())
    assert relate(optimizer, optimizer).summary.pairs == 2
    assert len(optimizer.state) == 0


def test_the_record_is_frozen_and_plain():
    relation = relate(model(), model())
    with pytest.raises(dataclasses.FrozenInstanceError):
        relation.pairs = ()
    data = relation.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["text"] == str(relation)
    assert data["summary"]["pairs"] == 7
    assert data["pairs"][0]["relation"]["a"]["shape"] == [4, 3]
    assert "separate=7" in repr(relation)


def test_one_walk_of_the_graph_serves_all_pairs(monkeypatch):
    """Each node is read once, though every pair's way leads through the same long stem."""
    y = torch.ones(3, requires_grad=True)
    for _ in range(500):
        y = y + 1
    reads = 0
    from torchcopy.semantics.relation import graph_path

    inputs = graph_path.GraphReader.inputs

    def counted(self, node):
        nonlocal reads
        reads += id(node) not in self._inputs
        return inputs(self, node)

    monkeypatch.setattr(graph_path.GraphReader, "inputs", counted)
    relation = relate([y * k for k in range(10)], [y + k for k in range(10)])
    assert {pair.relation.graph for pair in relation.pairs} == {"common"}
    assert reads < 600


def test_plain_tensor_attributes_of_a_module_are_looked_at():
    a, b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    a.table = b.table = torch.ones(2)
    relation = relate(a, b)
    (pair,) = [pair for pair in relation.pairs if pair.path == ".table"]
    assert pair.relation.memory == "same"
    assert relation.summary.shared_bytes == 8


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what importing the compiler warns of
def test_a_compiled_module_has_the_names_of_its_module():
    model = torch.nn.Linear(2, 2)
    relation = relate(model, torch.compile(model))
    assert [pair.path for pair in relation.pairs] == [".weight", ".bias"]
    assert {pair.relation.memory for pair in relation.pairs} == {"same"}
    assert not relation.only_a
    assert not relation.only_b
