import itertools

import pytest
import torch

import torchcopy as tc
from torchcopy.semantics.advice import records
from torchcopy.semantics.advice import tensor as tensor_advice
from torchcopy.semantics.advice.tensor import fulfils
from torchcopy.semantics.catalogue import CopyMethod, find_method, other_dtype
from torchcopy.semantics.probe import SourceFacts, probe
from torchcopy.semantics.timing import Timing

SMALL = {"numel": 64}
GRAPH, MEMORY = ("detach", "keep"), ("own", "share", "lazy")


@pytest.mark.parametrize(
    ("needs", "expression"),
    [
        ({}, "t.detach().clone()"),
        ({"memory": "share"}, "t.detach()"),
        ({"memory": "lazy"}, "torch._lazy_clone(t.detach())"),
        ({"graph": "keep"}, "t.clone()"),
        ({"graph": "keep", "memory": "share"}, "t.view(t.shape)"),
        ({"graph": "keep", "memory": "lazy"}, "torch._lazy_clone(t)"),
        ({"hot_loop": True}, "buffer.copy_(t.detach())"),
        ({"dtype": "float16"}, "t.detach().to(torch.float16, copy=True)"),
        ({"device": "cpu", "graph": "keep"}, "t.to('cpu', copy=True)"),
        ({"device": torch.device("cpu"), "dtype": torch.int64}, "t.detach().to('cpu', torch.int64, copy=True)"),
        ({"nested": True}, "tc.copy(model)"),
        ({"nested": True, "hot_loop": True}, "tc.copy_(kept, model)"),
        ({"nested": True, "memory": "lazy"}, "tc.fork(model)"),
        ({"nested": True, "memory": "share"}, "model.state_dict()"),
    ],
)
def test_expression(needs, expression):
    assert tc.advise(**needs, **SMALL).expression == expression


@pytest.mark.parametrize(
    ("graph", "memory", "hot_loop", "nested"), list(itertools.product(GRAPH, MEMORY, (False, True), (False, True)))
)
def test_what_is_advised_does_what_was_asked_for(graph, memory, hot_loop, nested):
    """The expression is run as it stands; then both sides are written and a gradient is sent."""
    advice = tc.advise(graph=graph, memory=memory, hot_loop=hot_loop, nested=nested, **SMALL)
    model = torch.nn.Linear(3, 2)
    t = torch.arange(6.0, requires_grad=True) * 1
    names = {"t": t, "model": model, "torch": torch, "tc": tc}
    if advice.setup:
        exec(advice.setup, names)
    with torch.set_grad_enabled(not nested or graph == "keep"):
        result = eval(advice.expression, names)
    if nested:
        source = model.weight
        result = names.get("kept", result)
        made = result[0] if isinstance(result, list) else (
            result.weight if isinstance(result, torch.nn.Module) else result["weight"]
        )  # fmt: skip
    else:
        source, made = t, result
    assert torch.equal(made, source)
    if graph == "keep":
        (arrived,) = torch.autograd.grad(made.sum(), source, retain_graph=True)
        assert torch.equal(arrived, torch.ones_like(source))
    with torch.no_grad():
        made.detach().flatten()[0] = 99.0
        assert (float(source.flatten()[0]) == 99.0) is (memory == "share")
        source.detach().flatten()[1] = -99.0
        assert (float(made.flatten()[1]) == -99.0) is (memory == "share")


def test_every_timed_alternative_does_the_same_and_the_first_is_the_advice():
    advice = tc.advise(**SMALL)
    assert advice.timings[0].code == advice.expression
    assert advice.timings[0].ratio == 1.0
    methods = {m.code: m for m in tc.find_methods()}
    for choice in advice.timings:
        assert fulfils(probe(methods[choice.code]).main, "detach", "own")


def test_methods_of_the_user_take_part():
    tc.register_method("times_one", lambda t: t.detach() * 1, code="t.detach() * 1")
    try:
        assert "t.detach() * 1" in [choice.code for choice in tc.advise(**SMALL).timings]
    finally:
        tc.unregister_method("times_one")


def test_a_choice_that_does_not_hold_up_is_not_recommended(monkeypatch):
    broken = CopyMethod("detach_clone", "t.detach().clone()", lambda t: t.detach(), "Broken.", None, "Broken.")
    others = tuple(m for m in tc.find_methods() if m.id != "detach_clone")
    monkeypatch.setattr(tensor_advice, "find_methods", lambda: (broken, *others))
    monkeypatch.setattr(
        tensor_advice, "find_method", lambda name: broken if name == broken.id else find_method(name)
    )
    advice = tc.advise(**SMALL)
    assert advice.expression != "t.detach().clone()"
    assert "was probed and does not do this" in advice.notes[0]


def test_without_copy_on_write_lazy_becomes_own_and_says_so(monkeypatch):
    eager = tuple(m for m in tc.find_methods() if "lazy" not in m.id and m.id != "tc.fork")
    monkeypatch.setattr(tensor_advice, "find_methods", lambda: eager)
    advice = tc.advise(memory="lazy", **SMALL)
    assert advice.expression == "t.detach().clone()"
    assert advice.needs.memory == "lazy"
    assert "this copies at once" in advice.notes[0]


def test_a_device_that_is_not_here_is_advised_on_and_not_measured():
    advice = tc.advise(device="cuda:77", **SMALL)
    assert advice.expression == "t.detach().to('cuda:77', copy=True)"
    assert advice.timings == ()
    assert advice.notes[0].startswith("Not measured: device 'cuda:77' is not at hand here")


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ({"graph": "cut"}, "`graph` must be one of 'detach', 'keep'; got 'cut'"),
        ({"memory": None}, "`memory` must be one of 'own', 'share', 'lazy'; got None"),
        ({"device": "nowhere"}, "there is no device 'nowhere'"),
        ({"device": "meta"}, "holds no values"),
        ({"dtype": "float33"}, "there is no dtype 'float33'"),
        ({"numel": 0}, "at least 1; got 0"),
        ({"numel": 1.5}, "a whole number of elements"),
        ({"numel": True}, "a whole number of elements"),
        ({"numel": 10**15}, "choose a smaller size"),
        ({"memory": "share", "dtype": "float16"}, "converted bytes are new bytes"),
        ({"graph": "keep", "dtype": "int64"}, "only floating dtypes carry gradients"),
        ({"nested": True, "device": "cpu"}, "copy first, then"),
    ],
)
def test_refusals(needs, message):
    with pytest.raises(tc.InputError, match=message):
        tc.advise(**needs)


def test_record():
    data = tc.advise(**SMALL).to_dict()
    assert data["needs"]["numel"] == 64
    assert data["timings"][0]["timing"]["runs"] >= 5
    assert {"code": "torch.tensor(t)"}.items() <= data["avoid"][1].items()
    assert str(tc.advise(hot_loop=True, **SMALL)).startswith("buffer = torch.empty_like(t, requires_grad=False); ")
    assert other_dtype(torch.float32) == torch.float64


RIGHT = {
    "source": "non_leaf", "error": None, "values_kept": True, "dtype_kept": True, "source_changed": False,
    "requires_grad": True, "graph": True, "gradient_correct": True, "lazy": False, "shares_memory": False,
}  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"error": "ValueError"},
        {"values_kept": False},
        {"dtype_kept": False},
        {"source_changed": True},
        {"graph": False},
        {"gradient_correct": False},
        {"lazy": True},
        {"shares_memory": True},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_each_need_is_checked(wrong):
    assert fulfils(SourceFacts(**RIGHT), "keep", "own")
    assert not fulfils(SourceFacts(**{**RIGHT, **wrong}), "keep", "own")


def test_a_detached_copy_requires_no_grad():
    assert not fulfils(SourceFacts(**RIGHT), "detach", "own")
    assert fulfils(SourceFacts(**{**RIGHT, "requires_grad": False, "graph": False}), "detach", "own")


def test_ratios_and_words_follow_the_clock(monkeypatch):
    """Each call takes as long as it is told to: the ratio is its time over that of the advice."""
    times = iter([2.0, 3.0, 1.0])
    monkeypatch.setattr(
        records, "time_call", lambda call, min_seconds: (call(), Timing(next(times, 1), 1, 1, 5))[1]
    )
    advice = tc.advise(hot_loop=True, **SMALL)
    assert [choice.ratio for choice in advice.timings[:3]] == [1.0, 1.5, 0.5]
    assert "takes less time than `t.detach().clone()`, which takes 1.50× as long" in advice.why
    times = iter([2.0, 1.0])
    assert "takes no less time than" in tc.advise(hot_loop=True, **SMALL).why


def test_what_is_timed_on_a_model_has_about_the_size_asked_for():
    advice = tc.advise(nested=True, numel=8 * 32 * 32)
    assert advice.measured_on == "a model of 8 layers, 8,192 parameters"
    assert advice.timings[0].code == "tc.copy(model)"


def test_converting_in_a_hot_loop_goes_into_a_buffer():
    advice = tc.advise(dtype="float16", hot_loop=True, **SMALL)
    assert advice.setup == "buffer = torch.empty_like(t, dtype=torch.float16, requires_grad=False)"
    t = torch.arange(4.0, requires_grad=True)
    names = {"torch": torch, "t": t}
    exec(f"{advice.setup}\n{advice.expression}", names)
    assert names["buffer"].tolist() == [0, 1, 2, 3]
    assert names["buffer"].dtype == torch.float16
    names["buffer"][0] = 9
    assert t[0] == 0


def test_a_hot_loop_that_changes_nothing_is_said():
    assert any("changes nothing" in note for note in tc.advise(graph="keep", hot_loop=True, **SMALL).notes)


def test_numpy_integers_are_sizes():
    import numpy as np

    assert tc.advise(numel=np.int64(64)).needs.numel == 64
