"""Models of every kind go on exactly after a restore, and stay the objects they were."""

import functools

import pytest
import torch
from torch import nn, optim
from torch.nn.utils import prune

import torchcopy as tc
from bitwise import bits, differences
from training_runs import CLASSES, FEATURES, MODES, Run, seed_everything

pytestmark = pytest.mark.usefixtures("one_thread")


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(FEATURES, FEATURES)
        self.second = nn.Linear(FEATURES, FEATURES)
        self.second.weight = self.first.weight
        self.last = nn.Linear(FEATURES, CLASSES)

    def forward(self, x):
        return self.last(self.second(self.first(x).relu()))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.cells = kind(2, 5, num_layers=2, bidirectional=True, dropout=0.2, batch_first=True, **options)
        self.last = nn.Linear(10, CLASSES)

    def forward(self, x):
        return self.last(self.cells(x.view(len(x), 3, 2))[0][:, -1])


class Changing(nn.Module):
    """Buffers of each kind that change in training: in place, by a new tensor, outside the state_dict."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("average", torch.zeros(CLASSES))
        self.register_buffer("largest", torch.zeros(CLASSES), persistent=False)
        self.register_buffer("nothing", None)

    def forward(self, x):
        y = self.layer(x) - self.average + self.largest * self.calls
        with torch.no_grad():
            self.calls += 1
            self.average = self.average * 0.9 + y.mean(0) * 0.1
            self.largest.copy_(torch.maximum(self.largest, y.amax(0)) * 0.5)
        return y


class ExtraState(nn.Module):
    """Keeps state that is no tensor, and a tensor whose size changes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)
        self.seen = {"calls": 0, "scales": [1.0]}
        self.past = torch.zeros(0)

    def get_extra_state(self):
        return {"seen": self.seen, "past": self.past}

    def set_extra_state(self, state):
        self.seen, self.past = state["seen"], state["past"]

    def forward(self, x):
        y = self.layer(x) * self.seen["scales"][-1] + self.past.sum()
        self.seen["calls"] += 1
        self.seen["scales"].append(1.0 + self.seen["calls"] / 100)
        self.past = torch.cat([self.past, y.detach().mean()[None] * 0.01])
        return y


class ExtraTensor(ExtraState):
    """Its extra state is one tensor, longer with every step."""

    def get_extra_state(self):
        return self.past

    def set_extra_state(self, state):
        self.past = state
        self.seen = {"calls": len(state), "scales": [1.0 + len(state) / 100]}


class OwnStateDict(nn.Module):
    """Its state_dict has other names and computed values."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)

    def forward(self, x):
        return self.layer(x)

    def state_dict(self, *args, **kwargs):
        return {"w": self.layer.weight.detach().t().contiguous(), "b": self.layer.bias.detach(), "version": 2}

    def load_state_dict(self, state, *args, **kwargs):
        if set(state) != {"w", "b", "version"}:
            raise KeyError(set(state))
        with torch.no_grad():
            self.layer.weight.copy_(state["w"].t())
            self.layer.bias.copy_(state["b"])


class DoublePrecisionStateDict(nn.Linear):
    """A hook gives the state_dict computed values, and one turns them back."""

    def __init__(self):
        super().__init__(FEATURES, CLASSES)
        self.register_state_dict_post_hook(self._halve)
        self.register_load_state_dict_pre_hook(self._double)

    @staticmethod
    def _halve(module, state, prefix, metadata):
        state[f"{prefix}weight"] = state[f"{prefix}weight"].detach() / 2

    @staticmethod
    def _double(module, state, prefix, *rest):
        state[f"{prefix}weight"] = state[f"{prefix}weight"] * 2


def weight_normed():
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(FEATURES, 5)), nn.Linear(5, CLASSES))


def old_weight_normed():
    return nn.Sequential(nn.utils.weight_norm(nn.Linear(FEATURES, 5)), nn.Linear(5, CLASSES))


def spectral_normed():
    return nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(FEATURES, 5)), nn.Linear(5, CLASSES))


def orthogonal():
    return nn.Sequential(nn.utils.parametrizations.orthogonal(nn.Linear(FEATURES, 5)), nn.Linear(5, CLASSES))


def pruned():
    layer = nn.Linear(FEATURES, 5)
    prune.random_unstructured(layer, "weight", 0.3)
    return nn.Sequential(layer, nn.Linear(5, CLASSES))


def materialised():
    model = nn.Sequential(nn.LazyLinear(7), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(CLASSES))
    model(torch.zeros(2, FEATURES))
    return model


def convolutional():
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)),
        nn.Conv2d(1, 4, 2, padding=1),
        nn.GroupNorm(2, 4),
        nn.Dropout2d(0.2),
        nn.Flatten(),
        nn.Linear(48, CLASSES),
    ).to(memory_format=torch.channels_last)


def attending():
    return nn.Sequential(
        nn.Unflatten(1, (3, 2)),
        nn.TransformerEncoderLayer(2, 1, 4, dropout=0.2, batch_first=True),
        nn.Flatten(),
        nn.Linear(FEATURES, CLASSES),
    )


def partly_frozen():
    model = nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5, momentum=None), nn.Linear(5, CLASSES))
    model[0].requires_grad_(False)
    return model


MODELS = {
    "tied": Tied,
    "LSTM": functools.partial(Recurrent, nn.LSTM, proj_size=0),
    "GRU": functools.partial(Recurrent, nn.GRU),
    "weight_norm": weight_normed,
    "spectral_norm": spectral_normed,
    "orthogonal": orthogonal,
    "pruned": pruned,
    "changing-buffers": Changing,
    "extra-state": ExtraState,
    "extra-tensor": ExtraTensor,
    "own-state_dict": OwnStateDict,
    "hooked-state_dict": DoublePrecisionStateDict,
    "lazy-modules": materialised,
    "channels_last": convolutional,
    "attention": attending,
    "partly-frozen": partly_frozen,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_model_goes_on_exactly(make, mode):
    seed_everything()
    model = make()
    run = Run(model, lambda p: optim.AdamW(p, lr=0.01, foreach=True))
    extra = getattr(model, "get_extra_state", lambda: None) if isinstance(model, ExtraState) else lambda: None
    history = tc.History(**run.parts, mode=mode)
    run.train(10)
    objects = [*model.parameters(), *model.modules()]
    snapshot = history.take()
    here, extra_here = run.bits(), bits(extra())
    losses = run.train(10)
    there, extra_there = run.bits(), bits(extra())
    assert differences(here, there)
    for _ in range(2):
        snapshot.restore()
        assert differences(run.bits(), here) == []
        assert differences(bits(extra()), extra_here) == []
        assert bits(run.train(10)) == bits(losses)
        assert differences(run.bits(), there) == []
        assert differences(bits(extra()), extra_there) == []
    assert all(a is b for a, b in zip(objects, [*model.parameters(), *model.modules()], strict=True))


@pytest.mark.parametrize("mode", MODES)
def test_old_weight_norm_goes_on_exactly(mode):
    with pytest.warns(FutureWarning, match="weight_norm"):
        model = old_weight_normed()
    seed_everything()
    run = Run(model, lambda p: optim.SGD(p, lr=0.1, momentum=0.9))
    history = tc.History(**run.parts, mode=mode)
    run.train(3)
    snapshot = history.take()
    losses, there = run.train(5), run.bits()
    snapshot.restore()
    assert bits(run.train(5)) == bits(losses)
    assert differences(run.bits(), there) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_model_is_built_anew(make, mode):
    """What is built computes as the model did, and neither is seen from the other."""
    seed_everything()
    run = Run(make(), lambda p: optim.AdamW(p, lr=0.01))
    history = tc.History(**run.parts, mode=mode)
    run.train(4)
    snapshot = history.take()
    here = bits(run.model.state_dict())
    built = snapshot.build(model=make, optimizer=lambda model: optim.AdamW(model.parameters(), lr=1.0))
    model, optimizer = built["model"], built["optimizer"]
    assert differences(bits(model.state_dict()), here) == []
    assert differences(bits(optimizer.state_dict()), bits(run.optimizer.state_dict())) == []
    shared = {t.data_ptr() for t in [*run.model.parameters(), *run.model.buffers()] if t.numel()}
    assert not shared & {t.data_ptr() for t in [*model.parameters(), *model.buffers()] if t.numel()}
    run.train(3)
    assert differences(bits(model.state_dict()), here) == []
    after = run.bits()
    with torch.no_grad():
        for t in [*model.parameters(), *model.buffers(), *model.state_dict().values()]:
            if isinstance(t, torch.Tensor):
                t.fill_(1)
    assert differences(run.bits(), after) == []
    snapshot.restore()
    assert differences(bits(run.model.state_dict()), here) == []


def test_buffers_that_came_later_are_gone_after_a_restore():
    """A cache that is made at the first call, as state of an optimizer is."""
    model = nn.Linear(2, 2)
    model.register_buffer("cache", None, persistent=False)
    model.register_buffer("scale", None)
    history = tc.History(model=model)
    snapshot = history.take()
    model.cache, model.scale = torch.ones(3), torch.ones(2)
    later = history.take()
    snapshot.restore()
    assert model.cache is None
    assert model.scale is None
    later.restore()
    assert torch.equal(model.cache, torch.ones(3))
    assert torch.equal(model.scale, torch.ones(2))
    model.cache.zero_()
    model.scale.zero_()
    later.restore()
    assert torch.equal(model.cache, torch.ones(3))
    assert torch.equal(model.scale, torch.ones(2))


def test_a_cache_that_grew_is_as_long_as_it_was():
    model = nn.Linear(2, 2)
    model.register_buffer("cache", torch.ones(3), persistent=False)
    history = tc.History(model=model)
    snapshot = history.take()
    model.cache = torch.zeros(5)
    snapshot.restore()
    assert torch.equal(model.cache, torch.ones(3))
    model.cache.zero_()
    snapshot.restore()
    assert torch.equal(model.cache, torch.ones(3))


def test_modules_without_shapes_are_refused_until_they_have_some():
    history = tc.History(model=nn.LazyLinear(2))
    with pytest.raises(tc.InputError, match=r"^model.*weight.* uninitialized.* run the module once"):
        history.take()
    assert len(history) == 0


def test_a_refused_restore_leaves_late_buffers_as_they_are():
    """Also where the module's own code takes the rest of the state."""
    model = ExtraState()
    model.register_buffer("cache", None, persistent=False)
    model.register_buffer("scale", None)

    class Refusing:
        def state_dict(self):
            return {}

        def load_state_dict(self, state):
            raise ValueError("no")

    history = tc.History(model=model, other=Refusing())
    snapshot = history.take()
    model.cache, model.scale = torch.ones(3), torch.ones(2)
    model(torch.ones(2, FEATURES))
    before, cache = bits([model.state_dict(), model.cache]), model.cache
    with pytest.raises(tc.RestoreError, match="other refused its state: ValueError: no"):
        snapshot.restore()
    assert differences(bits([model.state_dict(), model.cache]), before) == []
    assert model.cache is cache
