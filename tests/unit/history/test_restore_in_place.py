"""`restore` writes into the objects that are there; where something does not fit, all is told and nothing done."""

import copy
import random

import numpy as np
import pytest
import torch
from torch import nn, optim

import torchcopy as tc
from bitwise import bits, differences
from training_runs import CLASSES, FEATURES, MODES, Run, everyday_model, seed_everything

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


def plateau(optimizer):
    return optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)


def trained_run(model=None):
    seed_everything()
    run = Run(model or everyday_model(), lambda p: optim.AdamW(p, lr=0.01, fused=True), plateau)
    run.train(2)
    return run


def addresses(run):
    state = run.optimizer.state
    tensors = [*run.model.parameters(), *run.model.buffers()]
    tensors += [t for p in run.model.parameters() for t in state[p].values()]
    return [(id(t), t.data_ptr()) for t in tensors]


# --- what survives ---------------------------------------------------------------------------------------------


def test_eager_snapshots_are_written_into_the_very_memory():
    run = trained_run()
    history = tc.History(**run.parts)
    snapshot, there = history.take(), addresses(run)
    here = run.bits()
    run.train(3)
    assert addresses(run) == there
    snapshot.restore()
    assert addresses(run) == there
    assert differences(run.bits(), here) == []


def test_objects_stay_what_they_are(mode):
    run = trained_run()
    optimizer, model = run.optimizer, run.model
    history = tc.History(**run.parts, mode=mode)
    snapshot = history.take()
    run.train(2)
    parameters, modules = list(model.parameters()), list(model.modules())
    states = {id(p): optimizer.state[p] for p in parameters}
    state_tensors = [id(t) for p in parameters for t in optimizer.state[p].values()]
    groups = [id(group) for group in optimizer.param_groups]
    snapshot.restore()
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert all(a is b for a, b in zip(modules, model.modules(), strict=True))
    assert all(optimizer.state[p] is states[id(p)] for p in parameters)
    assert state_tensors == [id(t) for p in parameters for t in optimizer.state[p].values()]
    assert [id(group) for group in optimizer.param_groups] == groups
    assert all(a is b for a, b in zip(optimizer.param_groups[0]["params"], parameters, strict=True))
    assert run.scheduler.optimizer is optimizer
    assert all(p.is_leaf and p.requires_grad and p.grad is None for p in parameters)


def test_tied_weights_stay_tied(mode):
    model = nn.Sequential(
        nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, CLASSES)
    )
    model[1].weight = model[0].weight
    run = trained_run(model)
    snapshot = tc.History(**run.parts, mode=mode).take()
    here = bits(model.state_dict())
    run.train(2)
    snapshot.restore()
    assert model[1].weight is model[0].weight
    assert differences(bits(model.state_dict()), here) == []
    with torch.no_grad():
        model[0].weight.fill_(7)
    assert (model[1].weight == 7).all()


def test_views_of_one_storage_stay_views_of_it(mode):
    """A flat buffer for all parameters, as some distributed programs have it."""
    flat = torch.arange(6.0)
    values = {"flat": flat, "first": flat[:3], "last": flat[3:]}
    snapshot = tc.History(values=values, rng=False, mode=mode).take()
    flat.fill_(-1)
    snapshot.restore()
    assert values["flat"] is flat
    assert flat.tolist() == [0, 1, 2, 3, 4, 5]
    values["first"].fill_(9)
    assert flat.tolist() == [9, 9, 9, 3, 4, 5]
    assert snapshot.state("values")["flat"].tolist() == [0, 1, 2, 3, 4, 5]


def test_hooks_survive(mode):
    run = trained_run()
    calls = []
    run.model.register_forward_hook(lambda *_: calls.append("forward"))
    next(run.model.parameters()).register_hook(lambda grad: calls.append("gradient"))
    next(run.model.parameters()).register_post_accumulate_grad_hook(lambda p: calls.append("accumulated"))
    run.optimizer.register_step_post_hook(lambda *_: calls.append("step"))
    snapshot = tc.History(**run.parts, mode=mode).take()
    run.train(1)
    snapshot.restore()
    calls.clear()
    run.train(1)
    assert calls == ["forward", "gradient", "accumulated", "step"]


def test_memory_that_others_see_is_written_too(mode):
    """A NumPy view and a detached one of a parameter still see it after a restore."""
    layer = nn.Linear(3, 3)
    snapshot = tc.History(layer=layer, mode=mode).take()
    wanted = layer.weight.tolist()
    array, view = layer.weight.detach().numpy(), layer.weight.detach()
    with torch.no_grad():
        layer.weight.add_(1)
    snapshot.restore()
    assert layer.weight.tolist() == wanted
    assert array.tolist() == wanted
    assert view.tolist() == wanted
    array[:] = 5
    assert (layer.weight == 5).all()
    assert (view == 5).all()
    assert snapshot.state_dict()["weight"].tolist() == wanted


def test_a_graph_that_needs_the_old_values_raises(mode):
    layer = nn.Linear(3, 3)
    snapshot = tc.History(layer=layer, mode=mode).take()
    with torch.no_grad():
        layer.weight.mul_(2)
    loss = (layer.weight * layer.weight).sum()
    snapshot.restore()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_state_made_since_is_removed_for_each_parameter(mode):
    """Only one of two had a gradient when the snapshot was taken."""
    model = nn.ModuleList([nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)])
    optimizer = optim.Adam(model.parameters())
    model[0].weight.grad = torch.ones(2, 2)
    optimizer.step()
    snapshot = tc.History(model=model, optimizer=optimizer, mode=mode).take()
    before = bits(optimizer.state_dict())
    model[1].weight.grad = torch.ones(2, 2)
    optimizer.state[model[0].weight]["own"] = 5
    optimizer.step()
    snapshot.restore()
    assert model[1].weight not in optimizer.state
    assert differences(bits(optimizer.state_dict()), before) == []


def test_plain_values_and_containers(mode):
    array = np.arange(3.0)
    values = {"epoch": 3, "best": None, "losses": [1.0, 2.0], "array": array, "ema": [torch.ones(2)], "gone": "x"}
    losses, ema = values["losses"], values["ema"][0]
    history = tc.History(values=values, rng=False, mode=mode)
    snapshot = history.take()
    wanted = bits(values)
    values.update(epoch=9, best=0.1, new=torch.zeros(3))
    del values["gone"]
    losses.append(3.0)
    array[:] = -1
    ema.zero_()
    values["ema"].append(torch.zeros(1))
    snapshot.restore()
    assert differences(bits({name: values[name] for name in snapshot.state("values")}), wanted) == []
    assert "new" not in values
    assert values["losses"] is losses
    assert values["array"] is array
    assert values["ema"][0] is ema


# --- what does not fit -----------------------------------------------------------------------------------------


class Everything:
    """All of a run's bytes, the shared random numbers too, to be compared before and after."""

    def __init__(self, run):
        self.run = run
        self.before = run.bits()
        self.objects = [id(x) for x in (*run.model.parameters(), *run.model.buffers(), *run.model.modules())]
        self.gradients = [None if p.grad is None else bits(p.grad) for p in run.model.parameters()]

    def assert_unchanged(self):
        run = self.run
        assert differences(run.bits(), self.before) == []
        objects = [*run.model.parameters(), *run.model.buffers(), *run.model.modules()]
        assert [id(x) for x in objects] == self.objects
        assert [None if p.grad is None else bits(p.grad) for p in run.model.parameters()] == self.gradients


def assert_refused(run, snapshot, lines, **objects):
    torch.rand(1), np.random.rand(), random.random()
    everything = Everything(run)
    with pytest.raises(tc.RestoreError) as raised:
        snapshot.restore(**objects)
    everything.assert_unchanged()
    message = str(raised.value)
    if len(lines) == 1:
        assert message == f"nothing was restored: {lines[0]}"
    else:
        first, *rest = message.split("\n  ")
        assert first == f"nothing was restored, as {len(lines)} things do not match:"
        assert rest == lines


@pytest.fixture
def taken(mode):
    run = trained_run()
    return run, tc.History(**run.parts, mode=mode).take()


def test_a_renamed_layer(taken):
    run, snapshot = taken
    children = dict(run.model.named_children())
    run.model._modules.clear()
    for name, child in children.items():
        run.model.add_module("last" if name == "4" else name, child)
    assert_refused(
        run,
        snapshot,
        [
            "model['4.weight']: in the snapshot, not in the object",
            "model['4.bias']: in the snapshot, not in the object",
            "model['last.weight']: in the object, not in the snapshot",
            "model['last.bias']: in the object, not in the snapshot",
        ],
    )


def test_other_shapes_and_dtypes(taken):
    run, snapshot = taken
    last = run.model[4]
    last.weight.data = torch.zeros(CLASSES, 13)
    last.bias.data = last.bias.data.double()
    run.model[1].running_mean = torch.zeros(13)
    lines = [
        "model['1.running_mean']: expected float32[13] as in the object, found float32[12]",
        "model['4.weight']: expected float32[3, 13] as in the object, found float32[3, 12]",
        "model['4.bias']: expected float64[3] as in the object, found float32[3]",
    ]
    assert_refused(run, snapshot, lines)


def test_another_number_of_groups(taken):
    run, snapshot = taken
    run.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
    assert_refused(run, snapshot, ["optimizer.param_groups: expected 2 groups as in the object, found 1"])


def test_another_number_of_parameters(taken):
    run, snapshot = taken
    del run.optimizer.state[run.optimizer.param_groups[0]["params"].pop()]
    line = "optimizer.param_groups[0]: expected 5 parameters as in the object, found 6"
    assert_refused(run, snapshot, [line])


def test_differences_of_all_parts_are_told_at_once(taken):
    run, snapshot = taken
    del run.model[4].bias
    run.model.register_buffer("more", torch.zeros(1))
    run.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
    lines = [
        "model['4.bias']: in the snapshot, not in the object",
        "model['more']: in the object, not in the snapshot",
        "optimizer.param_groups: expected 2 groups as in the object, found 1",
    ]
    assert_refused(run, snapshot, lines)


def test_another_model_that_does_not_fit(taken):
    run, snapshot = taken
    other = nn.Linear(FEATURES, CLASSES)
    before = bits(other.state_dict())
    everything = Everything(run)
    with pytest.raises(tc.RestoreError, match=r"nothing was restored, as 11 things do not match"):
        snapshot.restore(model=other)
    everything.assert_unchanged()
    assert differences(bits(other.state_dict()), before) == []


def test_tensors_of_other_shapes_among_values(mode):
    values = {"a": [torch.ones(2)], "b": 1}
    snapshot = tc.History(values=values, rng=False, mode=mode).take()
    values["a"][0] = torch.zeros(3)
    values["b"] = 2
    snapshot.restore()
    assert bits(values) == bits({"a": [torch.ones(2)], "b": 1})
    alone = torch.zeros(2)
    snapshot = tc.History(alone=alone, rng=False, mode=mode).take()
    with pytest.raises(tc.RestoreError, match=r"alone: expected float32\[3\] as in the object, found float32\[2\]"):
        snapshot.restore(alone=torch.zeros(3))


def test_a_restore_after_a_refused_one(taken):
    run, snapshot = taken
    here = run.bits()
    run.train(2)
    run.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
    with pytest.raises(tc.RestoreError):
        snapshot.restore()
    run.optimizer.param_groups.pop()
    snapshot.restore()
    assert differences(run.bits(), here) == []


# --- objects that raise ----------------------------------------------------------------------------------------


class Meter:
    """Takes half of its state before it finds out that it does not like it."""

    def __init__(self, likes=lambda state: True):
        self.count, self.total, self.likes = 0, torch.zeros(2), likes

    def state_dict(self):
        return {"count": self.count, "total": self.total}

    def load_state_dict(self, state):
        self.count = state["count"]
        if not self.likes(state):
            raise ValueError(f"no count of {state['count']}")
        self.total.copy_(state["total"])


@pytest.mark.parametrize("first", [False, True], ids=["last", "first"])
def test_an_object_that_refuses_its_state(mode, first):
    """Wherever it stands among the parts, the others get back what they had, and itself too."""
    run = trained_run()
    meter = Meter()
    parts = {"meter": meter, **run.parts} if first else {**run.parts, "meter": meter}
    snapshot = tc.History(**parts, mode=mode).take()
    run.train(3)
    meter.count, meter.likes = 5, lambda state: state["count"] == 5
    meter.total.fill_(2)
    everything = Everything(run)
    with pytest.raises(
        tc.RestoreError, match=r"^nothing was restored: meter refused its state: ValueError: no count of 0$"
    ):
        snapshot.restore()
    everything.assert_unchanged()
    assert bits(meter.state_dict()) == bits({"count": 5, "total": torch.full((2,), 2.0)})


def test_an_object_that_refuses_whatever_it_gets(mode):
    """Itself it cannot be helped, and that is told; all others are as before."""
    run = trained_run()
    meter = Meter()
    snapshot = tc.History(meter=meter, **run.parts, mode=mode).take()
    run.train(3)
    meter.likes = lambda state: False
    everything = Everything(run)
    with pytest.raises(tc.RestoreError, match=r"no count of 0; meter refused also what it had before"):
        snapshot.restore()
    everything.assert_unchanged()


def test_two_objects_of_which_the_second_refuses(mode):
    first, second = Meter(), Meter(lambda state: state["count"] > 0)
    snapshot = tc.History(first=first, second=second, rng=False, mode=mode).take()
    first.count = second.count = 4
    first.total.fill_(1)
    with pytest.raises(tc.RestoreError, match="second refused its state"):
        snapshot.restore()
    assert bits([first.state_dict(), second.count]) == bits([{"count": 4, "total": torch.ones(2)}, 4])


def test_an_interrupt_while_restoring_undoes_it(mode):
    """Ctrl-C is no error of the snapshot's: it goes on as what it is."""

    class Interrupted(Meter):
        def load_state_dict(self, state):
            if state["count"] == 0:
                raise KeyboardInterrupt
            super().load_state_dict(state)

    run = trained_run()
    meter = Interrupted()
    snapshot = tc.History(**run.parts, meter=meter, mode=mode).take()
    run.train(2)
    meter.count = 1
    everything = Everything(run)
    with pytest.raises(KeyboardInterrupt):
        snapshot.restore()
    everything.assert_unchanged()
    assert meter.count == 1


def test_a_module_that_refuses_its_state(mode):
    class Picky(nn.Linear):
        def get_extra_state(self):
            return {"seen": getattr(self, "seen", 0)}

        def set_extra_state(self, state):
            self.seen = state["seen"]
            if self.seen == 0:
                raise ValueError("never seen")

    run = trained_run(Picky(FEATURES, CLASSES))
    snapshot = tc.History(**run.parts, mode=mode).take()
    run.train(2)
    run.model.seen = 3
    everything = Everything(run)
    with pytest.raises(tc.RestoreError, match=r"model refused its state: ValueError: never seen"):
        snapshot.restore()
    everything.assert_unchanged()
    assert run.model.seen == 3


def test_what_load_state_dict_is_given_is_its_own(mode):
    """It may keep and change it; the next restore gives the same again."""

    class Keeping:
        def __init__(self):
            self.state = {"list": [1], "tensor": torch.ones(2)}

        def state_dict(self):
            return self.state

        def load_state_dict(self, state):
            self.state = state

    keeping = Keeping()
    wanted = bits(copy.deepcopy(keeping.state))
    snapshot = tc.History(keeping=keeping, rng=False, mode=mode).take()
    for _ in range(2):
        keeping.state["list"].append(2)
        keeping.state["tensor"].zero_()
        assert differences(bits(snapshot.state("keeping")), wanted) == []
        snapshot.restore()
        assert differences(bits(keeping.state), wanted) == []
