"""Faults that a reviewer found, and that must not come back."""

import copy
import pickle

import pytest
import torch
from torch import nn

import torchcopy as tc


@pytest.mark.parametrize("mode", ["eager", "lazy", "background"])
def test_a_take_that_failed_does_not_spoil_the_next(mode):
    x = torch.ones(3)
    history = tc.History(x=x, rng=False, mode=mode)
    x.untyped_storage().resize_(0)
    with pytest.raises((tc.CopyError, tc.InputError, RuntimeError)):
        history.take()
    x.untyped_storage().resize_(12)
    x.fill_(2)
    history.take()
    x.fill_(3)
    assert history[-1].state("x").tolist() == [2, 2, 2]


@pytest.mark.parametrize("mode", ["eager", "lazy", "background"])
def test_taking_and_restoring_in_inference_mode(mode):
    model = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    history = tc.History(model=model, optimizer=optimizer, mode=mode, keep=1)
    with torch.inference_mode():
        history.take()
    expected = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        model.weight.zero_()
    with torch.inference_mode():
        history[-1].restore()
        assert not history[-1].state_dict("model")["weight"].is_inference()
    assert all(torch.equal(t, expected[name]) for name, t in model.state_dict().items())
    fresh = torch.optim.AdamW(model.parameters())
    with torch.inference_mode():
        history[-1].restore(optimizer=fresh)
    model(torch.ones(1, 2)).sum().backward()
    fresh.step()
    history.take()
    assert torch.equal(history[-1].state_dict("model")["weight"], model.weight)


def test_a_conjugated_view_of_unchanged_bytes_has_other_values():
    z = torch.randn(3, dtype=torch.complex64)
    state = {"z": z}
    history = tc.History(s=state, mode="lazy", rng=False)
    history.take()
    state["z"] = z.conj()
    history.take()
    assert torch.equal(history[-1].state("s")["z"].resolve_conj(), z.conj().resolve_conj())
    assert torch.equal(history[0].state("s")["z"], z)


def test_to_ask_for_bytes_draws_no_random_numbers():
    class Loader:
        def state_dict(self):
            return {"x": torch.randint(0, 9, (1,)).item()}

        def load_state_dict(self, state):
            pass

    history = tc.History(model=nn.Linear(1, 1), loader=Loader(), mode="lazy", max_bytes=10**9)
    history.take()
    first = torch.rand(1)
    assert history.nbytes >= 0
    history[-1].restore()
    assert torch.equal(torch.rand(1), first)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickle.dumps], ids=["deepcopy", "pickle"])
def test_a_snapshot_and_a_history_are_not_pickled(duplicate):
    history = tc.History(model=nn.Linear(1, 1), mode="lazy")
    history.take()
    for each in (history, history[-1]):
        with pytest.raises(tc.CopyError, match=r"bound to its run.*save\(path\)"):
            duplicate(each)


def state_of(build, shape):
    model = nn.Linear(*shape)
    optimizer = build(model.parameters())
    model(torch.ones(1, shape[0])).sum().backward()
    optimizer.step()
    return tc.History(optimizer=optimizer, rng=False).take()


def test_state_of_other_parameters_is_refused_where_there_is_none_yet():
    snapshot = state_of(torch.optim.AdamW, (3, 3))
    with pytest.raises(tc.RestoreError, match=r"expected what fits float32\[7, 5\], found float32\[3, 3\]"):
        snapshot.restore(optimizer=torch.optim.AdamW(nn.Linear(5, 7).parameters()))


def test_state_of_another_optimizer_is_refused():
    snapshot = state_of(torch.optim.AdamW, (3, 3))
    with pytest.raises(tc.RestoreError, match="expected the options of SGD, found none of momentum"):
        snapshot.restore(optimizer=torch.optim.SGD(nn.Linear(3, 3).parameters()))


@pytest.mark.parametrize("build", [torch.optim.Adafactor, torch.optim.LBFGS, torch.optim.Rprop])
def test_factored_and_flat_state_fits_a_fresh_optimizer(build):
    model = nn.Linear(3, 4)
    optimizer = build(model.parameters())

    def loss():
        optimizer.zero_grad()
        value = model(torch.ones(1, 3)).square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    snapshot = tc.History(optimizer=optimizer, rng=False).take()
    fresh = build(nn.Linear(3, 4).parameters())
    snapshot.restore(optimizer=fresh)
    assert len(fresh.state) == len(optimizer.state)


def test_state_that_belongs_to_no_parameter_is_removed_too():
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters())
    history = tc.History(optimizer=optimizer)
    history.take()
    optimizer.state["k"] = 5
    history[-1].restore()
    assert "k" not in optimizer.state


def test_parameters_in_no_part_are_named():
    model, scale = nn.Linear(1, 1), nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([*model.parameters(), scale])
    with pytest.warns(UserWarning, match="1 parameters of `optimizer` are in no part"):
        tc.History(model=model, optimizer=optimizer)
    history = tc.History(model=model, optimizer=optimizer, scale=[scale])
    history.take()
    scale.data.add_(1)
    scale.grad = torch.ones(1)
    history[-1].restore()
    assert scale.item() == 1
    assert scale.grad is None


@pytest.mark.parametrize("mode", ["eager", "lazy", "background"])
def test_an_expanded_tensor_comes_back(mode):
    base = torch.ones(1)
    history = tc.History(x=base.expand(5), rng=False, mode=mode)
    history.take()
    base.fill_(7)
    history[-1].restore()
    assert base.item() == 1
    assert history[-1].state("x").tolist() == [1] * 5


def test_a_loaded_snapshot_restores_the_shared_generators(tmp_path):
    model = nn.Linear(2, 2)
    tc.History(model=model).take().save(tmp_path / "one")
    first = torch.randn(3)
    tc.Snapshot.load(tmp_path / "one").restore(model=model)
    assert torch.equal(torch.randn(3), first)
