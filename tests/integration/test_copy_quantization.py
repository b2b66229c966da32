"""Modules that are prepared for quantization: their observers, and the makers of these, go with the copy."""

import copy
import gc
import weakref

import pytest
import torch
import torch.ao.quantization as quantization
from torch import nn

import torchcopy as tc

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # PyTorch moves this to a library of its own
    pytest.mark.filterwarnings("ignore:.*reduce_range:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions:UserWarning"),
]


def prepared(way):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))
    model.qconfig = (
        quantization.get_default_qat_qconfig("x86")
        if way == "aware training"
        else quantization.get_default_qconfig("x86")
    )
    prepare = quantization.prepare_qat if way == "aware training" else quantization.prepare
    return prepare(model.train(way == "aware training"))


WAYS = pytest.mark.parametrize("way", ["aware training", "after training"])


@WAYS
def test_a_prepared_model_is_copied_with_all_it_needs(way, make):
    source = prepared(way)
    source(torch.randn(3, 1, 4, 4))
    copied = make(source)
    before = {name: t.clone() for name, t in copied.state_dict().items()}
    x = torch.randn(3, 1, 4, 4)
    for t in source.state_dict().values():
        t.zero_()
    assert all(torch.equal(t, before[name]) for name, t in copied.state_dict().items())
    copied(x)
    assert not any(t.any() for t in source.state_dict().values())


@WAYS
def test_both_go_on_alike(way):
    source = prepared(way)
    copied = tc.copy(source)
    x = torch.randn(3, 1, 4, 4)
    for _ in range(2):
        assert torch.equal(source(x), copied(x))
    ours, theirs = source.state_dict(), copied.state_dict()
    assert all(torch.equal(t, theirs[name]) for name, t in ours.items())


@WAYS
def test_observers_of_the_copy_are_made_where_the_copy_is(way):
    source = prepared(way)
    copied = tc.copy(source, device="meta")
    for model, device in ((source, "cpu"), (copied, "meta")):
        options = model[0].qconfig.activation.callable_args["factory_kwargs"]()
        assert options == {"device": torch.device(device)}


@WAYS
def test_the_source_is_not_kept_alive(way):
    source = prepared(way)
    copied, alive = tc.copy(source), weakref.ref(source[0])
    del source
    gc.collect()
    assert alive() is None
    assert copied(torch.randn(3, 1, 4, 4)).shape == (3, 2)


def test_makers_that_are_copied_alone_stay_the_sources():
    source = prepared("aware training")
    with pytest.warns(tc.EscapeWarning, match="closure"):
        copied = tc.copy({"qconfig": source[0].qconfig, "weight": source[0].weight})
    deep = copy.deepcopy(source[0].qconfig)
    function = source[0].qconfig.activation.callable_args["factory_kwargs"]
    assert copied["qconfig"].activation.callable_args["factory_kwargs"] is function
    assert deep.activation.callable_args["factory_kwargs"] is function
    with torch.no_grad():
        source[0].weight.zero_()
    assert copied["weight"].any()
