"""The eager mode writes into the memory of snapshots that are gone, and of those alone."""

import gc

import pytest
import torch
from torch import nn

import torchcopy as tc
from torchcopy.history.taking.eager import layout_of


def addresses(snapshot):
    return [t.data_ptr() for t in snapshot._tensors()]


def run(**options):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    return model, tc.History(model=model, rng=False, **options)


def test_the_memory_of_a_snapshot_that_is_gone_is_written_again():
    model, history = run(keep=1)
    history.take(step=0)
    first = addresses(history[-1])
    with torch.no_grad():
        model[0].weight.fill_(3)
    history.take(step=1)
    assert addresses(history[-1]) == first
    assert history[-1].state_dict("model")["0.weight"].unique().tolist() == [3]


def test_a_snapshot_that_somebody_has_keeps_its_memory():
    model, history = run(keep=1)
    held = history.take(step=0)
    before = held.state_dict("model")
    with torch.no_grad():
        model[0].weight.fill_(3)
    history.take(step=1)
    assert set(addresses(held)).isdisjoint(addresses(history[-1]))
    for name, value in held.state_dict("model").items():
        assert torch.equal(value, before[name])
    assert history[-1].state_dict("model")["0.weight"].unique().tolist() == [3]


def change_shape(model):
    model[0].weight.data = torch.full((2, 8), 5.0)


def change_dtype(model):
    model.double()


def change_layout(model):
    model[0].weight.data = torch.arange(16.0).reshape(4, 4).t()


def tie(model):
    model[1].weight = model[1].bias


@pytest.mark.parametrize("change", [change_shape, change_dtype, change_layout, tie], ids=lambda f: f.__name__)
def test_what_does_not_fit_gets_new_memory(change):
    model, history = run(keep=1)
    history.take()
    change(model)
    history.take()
    expected = model.state_dict()
    found = history[-1].state_dict("model")
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        assert found[name].stride() == value.stride()
        assert torch.equal(found[name], value)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    again = history[-1].state_dict("model")
    assert all(torch.equal(again[name], found[name]) for name in found)


def test_views_of_one_storage_share_one_in_the_snapshot_and_its_buffers():
    base = torch.arange(12.0)
    history = tc.History(views={"a": base[:8], "b": base[4:]}, rng=False, keep=1)
    for turn in range(3):
        base.add_(turn)
        history.take()
        state = history[-1].state("views")
        assert torch.equal(state["a"][4:], state["b"][:4])
        state["a"][4:] = -1
        assert state["b"][:4].unique().tolist() == [-1]
        assert torch.equal(history[-1].state("views")["a"], base[:8])


def test_views_that_have_come_apart_are_not_written_into_shared_buffers():
    base = torch.arange(12.0)
    views = {"a": base[:8], "b": base[4:]}
    history = tc.History(views=views, rng=False, keep=1)
    history.take()
    views["b"] = torch.full((8,), 7.0)
    history.take()
    state = history[-1].state("views")
    assert torch.equal(state["a"], base[:8])
    assert state["b"].unique().tolist() == [7]


def test_one_set_of_buffers_waits_at_most():
    model, history = run(keep=4)
    for _ in range(4):
        history.take()
    for snapshot in list(history):
        history.remove(snapshot)
    del snapshot
    gc.collect()
    layout = layout_of([*model.state_dict().values()])
    assert history._returned.buffers(layout) is not None
    assert history._returned.buffers(layout) is None


def test_tensors_whose_elements_overlap_are_copied_anew():
    row = torch.arange(3.0)
    history = tc.History(
        values={"expanded": row.expand(4, 3), "every second": torch.arange(8.0)[::2]}, rng=False, keep=1
    )
    for turn in range(3):
        row.add_(turn)
        history.take()
        state = history[-1].state("values")
        assert torch.equal(state["expanded"], row.expand(4, 3))
        assert state["every second"].tolist() == [0, 2, 4, 6]
