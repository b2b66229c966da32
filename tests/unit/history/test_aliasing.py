"""What training does is never seen in a snapshot; what is done to what a snapshot hands out is seen nowhere else.

A `copy.deepcopy` made at the moment of `take` decides.
"""

import copy
import gc
import weakref

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


def new_run(**options):
    seed_everything()
    return Run(everyday_model(), lambda p: optim.AdamW(p, lr=0.01, fused=True), **options)


class Taken:
    """A snapshot and deep copies of what it was taken from."""

    def __init__(self, run, history):
        self.snapshot = history.take()
        self.model = bits(copy.deepcopy(run.model.state_dict()))
        self.optimizer = bits(copy.deepcopy(run.optimizer.state_dict()))

    def assert_unchanged(self):
        assert differences(bits(self.snapshot.state_dict("model")), self.model) == []
        assert differences(bits(self.snapshot.state("model")["state_dict"]), self.model) == []
        assert differences(bits(self.snapshot.state_dict("optimizer")), self.optimizer) == []


def live_tensors(run):
    state = [t for s in run.optimizer.state.values() for t in s.values()]
    return [*run.model.parameters(), *run.model.buffers(), *state]


def scribble(tensors):
    """Other values for all of them, in place."""
    with torch.no_grad():
        for t in tensors:
            t.copy_(torch.full_like(t, 77))


# --- the live side is written ------------------------------------------------------------------------------------


def by_data(run):
    for t in live_tensors(run):
        t.data.add_(1)


def by_no_grad(run):
    with torch.no_grad():
        for t in live_tensors(run):
            t.mul_(3).add_(1)


def by_training(run):
    run.train(2)


def by_foreach(run):
    with torch.no_grad():
        torch._foreach_add_(list(run.model.parameters()), 1.0)


def by_single_steps(run):
    run.optimizer.param_groups[0].update(fused=False, foreach=False)
    run.train(1)


def by_foreach_steps(run):
    run.optimizer.param_groups[0].update(fused=False, foreach=True)
    run.train(1)


def by_load_state_dict(run):
    run.model.load_state_dict({name: t + 1 for name, t in run.model.state_dict().items()})
    state = copy.deepcopy(run.optimizer.state_dict())
    state["state"] = {k: {n: t + 1 for n, t in s.items()} for k, s in state["state"].items()}
    run.optimizer.load_state_dict(state)
    by_data(run)


def by_load_state_dict_assign(run):
    run.model.load_state_dict({name: t + 1 for name, t in run.model.state_dict().items()}, assign=True)
    by_data(run)


def by_data_assignment(run):
    for p in run.model.parameters():
        p.data = torch.full_like(p, 5)
    by_data(run)


def by_set(run):
    for p in run.model.parameters():
        p.data.set_(torch.full_like(p, 5).untyped_storage(), 0, p.shape)
    by_data(run)


def by_storages(run):
    for t in live_tensors(run):
        t.detach().untyped_storage().fill_(1)


def by_numpy(run):
    """The views are made after the snapshot."""
    for t in live_tensors(run):
        t.detach().numpy()[...] = 9


def by_dlpack(run):
    for t in live_tensors(run):
        torch.from_dlpack(t.detach()).fill_(9)


def by_views(run):
    for t in live_tensors(run):
        t.detach().view(-1)[::2].fill_(4)
        t.detach().unsqueeze(0).transpose(0, -1).mul_(2)


def by_out(run):
    for t in live_tensors(run):
        torch.add(torch.ones_like(t), 1, out=t.detach())


def by_initialising(run):
    for m in run.model.modules():
        if hasattr(m, "reset_parameters"):
            m.reset_parameters()


def by_gradient_tricks(run):
    """A gradient that is the parameter's own memory, written in place."""
    for p in run.model.parameters():
        p.grad = p.detach()
    nn.utils.clip_grad_norm_(run.model.parameters(), 1e-3)


def by_restoring(run):
    """Another history writes into the same objects."""
    other = tc.History(**run.parts)
    snapshot = other.take()
    by_training(run)
    snapshot.restore()
    by_data(run)


def by_casting(run):
    run.model.double()
    by_data(run)


def by_sharing(run):
    run.model.share_memory()
    by_data(run)


def by_copying_in_place(run):
    tc.copy_(run.model, everyday_model())
    tc.lerp_(run.model, everyday_model(), 0.5)


LIVE_WRITES = [
    by_data,
    by_no_grad,
    by_training,
    by_foreach,
    by_single_steps,
    by_foreach_steps,
    by_load_state_dict,
    by_load_state_dict_assign,
    by_data_assignment,
    by_set,
    by_storages,
    by_numpy,
    by_dlpack,
    by_views,
    by_out,
    by_initialising,
    by_gradient_tricks,
    by_restoring,
    by_casting,
    by_sharing,
    by_copying_in_place,
]


@pytest.mark.parametrize("write", LIVE_WRITES)
@pytest.mark.parametrize("waits", [True, False], ids=["staged", "at-once"])
def test_no_write_to_the_run_is_seen(mode, write, waits):
    """Neither by a snapshot from before it, nor by those from after an earlier one."""
    if waits and mode != "background":
        waits = False
    run = new_run()
    history = tc.History(**run.parts, mode=mode)
    taken = [Taken(run, history)]
    run.train(1)
    taken += [Taken(run, history), Taken(run, history)]
    if waits:
        history.wait()
    before = run.bits()
    write(run)
    assert differences(before, run.bits())
    taken.append(Taken(run, history))
    for each in taken:
        each.assert_unchanged()
    scribble(live_tensors(run))
    for each in taken:
        each.assert_unchanged()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # Dynamo's own
def test_a_compiled_step_is_not_seen(mode):
    run = new_run()
    parameters = list(run.model.parameters())

    def step(weights, gradients):
        for w, g in zip(weights, gradients, strict=True):
            w.sub_(g, alpha=0.1)

    compiled = torch.compile(step, backend="aot_eager")
    history = tc.History(**run.parts, mode=mode)
    with torch.no_grad():
        compiled(parameters, [torch.ones_like(p) for p in parameters])
    taken = [Taken(run, history)]
    for _ in range(3):
        before = run.bits()
        with torch.no_grad():
            compiled(parameters, [torch.ones_like(p) for p in parameters])
        assert differences(run.bits(), before)
        taken.append(Taken(run, history))
        for each in taken:
            each.assert_unchanged()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # Dynamo's own
def test_a_compiled_optimizer_is_not_seen(mode):
    """Nor does `take` have it compiled anew again and again."""
    counter = torch._dynamo.testing.CompileCounter()
    layer = nn.Linear(3, 2)
    optimizer = optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    compiled = torch.compile(optimizer.step, backend=counter)
    history = tc.History(layer=layer, optimizer=optimizer, mode=mode, keep=None)
    wanted, compilations = [], []
    for _ in range(8):
        layer(torch.ones(2, 3)).sum().backward()
        compiled()
        compilations.append(counter.frame_count)
        history.take()
        wanted.append(bits([copy.deepcopy(layer.state_dict()), copy.deepcopy(optimizer.state_dict())]))
    for snapshot, each in zip(history, wanted, strict=True):
        assert differences(bits([snapshot.state_dict("layer"), snapshot.state_dict("optimizer")]), each) == []
    assert len({str(each) for each in wanted}) == 8
    assert compilations[0] >= 1
    assert compilations[3] == compilations[7], compilations


# --- what a snapshot hands out is written ------------------------------------------------------------------------


def tensors_in(x):
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, nn.Module):
        return [*x.parameters(), *x.buffers()]
    if isinstance(x, optim.Optimizer):
        return tensors_in(x.state_dict())
    if isinstance(x, dict):
        return [t for value in x.values() for t in tensors_in(value)]
    if isinstance(x, (list, tuple)):
        return [t for value in x for t in tensors_in(value)]
    return []


def state_dicts(snapshot):
    return [snapshot.state_dict("model"), snapshot.state_dict("optimizer"), snapshot.state_dict("generator")]


def states(snapshot):
    return [snapshot.state(name) for name in snapshot.parts]


def built(snapshot):
    return snapshot.build(model=everyday_model, optimizer=lambda model: optim.AdamW(model.parameters(), fused=True))


@pytest.mark.parametrize("get", [state_dicts, states, built])
def test_no_write_to_what_is_handed_out_is_seen(mode, get):
    """Not by the run, not by its snapshot, not by other snapshots, not by what was handed out before."""
    run = new_run()
    run.train(1)
    history = tc.History(**run.parts, mode=mode)
    taken = [Taken(run, history), Taken(run, history)]
    run.train(1)
    taken.append(Taken(run, history))
    here = run.bits()
    kept = [get(each.snapshot) for each in taken]
    kept_bits = [[bits(t) for t in tensors_in(each)] for each in kept]
    for each in taken:
        handed_out = get(each.snapshot)
        assert len(tensors_in(handed_out)) >= 2
        scribble(tensors_in(handed_out))
        for other in taken:
            other.assert_unchanged()
        assert differences(run.bits(), here) == []
    assert [[bits(t) for t in tensors_in(each)] for each in kept] == kept_bits
    run.train(1)
    assert [[bits(t) for t in tensors_in(each)] for each in kept] == kept_bits


def test_containers_that_are_handed_out_are_nobody_elses(mode):
    run = new_run(make_scheduler=lambda o: optim.lr_scheduler.MultiStepLR(o, [2, 5]))
    run.train(1)
    snapshot = tc.History(**run.parts, mode=mode).take()
    wanted, here = bits([snapshot.state(name) for name in ("model", "optimizer", "scheduler")]), run.bits()
    for name in ("model", "optimizer", "scheduler"):
        state = snapshot.state(name)
        for value in list(state.values()):
            if isinstance(value, (dict, list)):
                value.clear()
        state.clear()
        snapshot.state_dict(name).clear()
    snapshot.state("scheduler")["milestones"].update({7: 1})
    snapshot.state("optimizer")["param_groups"][0]["params"].append(5)
    snapshot.state_dict("model")._metadata.clear()
    assert differences(bits([snapshot.state(name) for name in ("model", "optimizer", "scheduler")]), wanted) == []
    assert "" in snapshot.state_dict("model")._metadata
    assert differences(run.bits(), here) == []


def test_labels_are_the_snapshots_own(mode):
    loss = torch.tensor(0.5)
    run = new_run()
    snapshot = tc.History(**run.parts, mode=mode).take(loss=loss)
    loss.fill_(3)
    assert snapshot.labels == {"loss": 0.5}


def test_restored_tensors_are_not_the_snapshots(mode):
    """After a restore the run is written, in every way; the snapshot and its neighbours stay, and restore again."""
    for write in LIVE_WRITES:
        if write in (by_casting, by_load_state_dict_assign):
            continue  # the run is another one then
        run = new_run()
        run.train(1)
        history = tc.History(**run.parts, mode=mode)
        taken = [Taken(run, history)]
        run.train(1)
        taken += [Taken(run, history), Taken(run, history)]
        for each in (taken[0], taken[2]):
            each.snapshot.restore()
            write(run)
            scribble(live_tensors(run))
            for other in taken:
                other.assert_unchanged()
        taken[1].snapshot.restore()
        assert differences(bits(run.model.state_dict()), taken[1].model) == [], write.__name__
        assert differences(bits(run.optimizer.state_dict()), taken[1].optimizer) == [], write.__name__


def test_restored_objects_do_not_share_with_each_other(mode):
    """One snapshot into two models: writing one is not seen in the other."""
    run = new_run()
    snapshot = tc.History(**run.parts, mode=mode).take()
    others = [everyday_model(), everyday_model()]
    wanted = bits(run.model.state_dict())
    for other in others:
        snapshot.restore(model=other)
    for k, other in enumerate(others):
        scribble([*other.parameters(), *other.buffers()])
        assert all(differences(bits(m.state_dict()), wanted) == [] for m in (*others[k + 1 :], run.model))
    assert differences(bits(snapshot.state_dict("model")), wanted) == []


# --- memory that is used again -----------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_what_was_handed_out_by_an_evicted_snapshot_stays(mode, keep):
    """Its buffers are written again by the next snapshots."""
    run = new_run()
    history = tc.History(**run.parts, mode=mode, keep=keep)
    kept = []
    for _ in range(8):
        run.train(1)
        snapshot = history.take()
        state = snapshot.state_dict("model")
        kept.append((state, bits(state)))
        assert differences(bits(run.model.state_dict()), bits(state)) == []
        del snapshot
        for each, wanted in kept:
            assert differences(bits(each), wanted) == []


def test_an_evicted_snapshot_that_somebody_holds_stays_as_it_was(mode):
    run = new_run()
    history = tc.History(**run.parts, mode=mode, keep=1)
    taken = []
    for k in range(8):
        run.train(1)
        each = Taken(run, history)
        if k % 3 == 0:
            taken.append(each)
        for other in taken:
            other.assert_unchanged()
    assert len(history) == 1
    taken[0].snapshot.restore()
    assert differences(bits(run.model.state_dict()), taken[0].model) == []


def test_snapshots_in_cycles_are_let_go(mode):
    """The garbage collector takes them at any moment; those that are held keep their values."""
    run = new_run()
    history = tc.History(**run.parts, mode=mode, keep=1)
    held, gone = [], []
    for k in range(12):
        run.train(1)
        each = Taken(run, history)
        cycle = [each.snapshot]
        cycle.append(cycle)
        gone.append(weakref.ref(each.snapshot))
        if k % 4 == 0:
            held.append(each)
        del cycle
        if k % 5 == 3:
            del each
            gc.collect()
        for other in held:
            other.assert_unchanged()
    del each
    history.clear()
    gc.collect()
    assert sum(ref() is not None for ref in gone) == len(held)


# --- tensors that share ------------------------------------------------------------------------------------------


def test_a_frozen_part_that_is_written_after_all(mode):
    """All snapshots share it in the lazy mode: none sees the write, and the next has the new values."""
    model = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, CLASSES))
    model[0].requires_grad_(False)
    history = tc.History(model=model, mode=mode, keep=None)
    wanted = []
    for k in range(9):
        with torch.no_grad():
            model[1].weight.add_(1)
            if k % 3 == 2:
                model[0].weight.data.mul_(2)
        history.take()
        wanted.append(bits(copy.deepcopy(model.state_dict())))
    for snapshot, each in zip(history, wanted, strict=True):
        assert differences(bits(snapshot.state_dict()), each) == []
    written = history[4].state_dict()
    scribble(written.values())
    for snapshot, each in zip(history, wanted, strict=True):
        assert differences(bits(snapshot.state_dict()), each) == []
    assert differences(bits(model.state_dict()), wanted[-1]) == []


def test_memory_that_comes_back_at_the_same_address(mode):
    """A parameter gets new memory again and again, maybe where an old one was: none is taken for unchanged."""
    layer = nn.Linear(64, 64, bias=False)
    history = tc.History(layer=layer, mode=mode, keep=2)
    for k in range(50):
        layer.weight.data = torch.full((64, 64), float(k))
        history.take(k=k)
        if k:
            assert (history[-2].state_dict()["weight"] == k - 1).all()
        assert (history[-1].state_dict()["weight"] == k).all()


def test_two_parameters_that_swap_their_memory(mode):
    layers = nn.ModuleList([nn.Linear(3, 3, bias=False) for _ in range(2)])
    history = tc.History(layers=layers, mode=mode)
    first, wanted = history.take(), bits(copy.deepcopy(layers.state_dict()))
    a, b = layers[0].weight, layers[1].weight
    a.data, b.data = b.data, a.data
    second, swapped = history.take(), bits(copy.deepcopy(layers.state_dict()))
    assert wanted != swapped
    a.data.zero_()
    assert differences(bits(first.state_dict()), wanted) == []
    assert differences(bits(second.state_dict()), swapped) == []
    second.restore()
    assert differences(bits(layers.state_dict()), swapped) == []


def test_a_parameter_that_becomes_another_view_of_its_memory(mode):
    """Its bytes are where they were; its values are not."""
    layer = nn.Linear(3, 3, bias=False)
    history = tc.History(layer=layer, mode=mode)
    first, wanted = history.take(), bits(copy.deepcopy(layer.state_dict()))
    layer.weight.data = layer.weight.data.t()
    second, transposed = history.take(), bits(copy.deepcopy(layer.state_dict()))
    assert wanted != transposed
    assert differences(bits(first.state_dict()), wanted) == []
    assert differences(bits(second.state_dict()), transposed) == []
    for snapshot, values in ((first, wanted), (second, transposed), (first, wanted)):
        snapshot.restore()
        assert differences(bits(layer.state_dict()), values) == []
        layer.weight.data.zero_()
        assert differences(bits(first.state_dict()), wanted) == []
        assert differences(bits(second.state_dict()), transposed) == []


@pytest.mark.parametrize("bit", [torch.Tensor.conj, torch._neg_view], ids=["conj", "neg"])
def test_a_value_that_becomes_a_conjugated_or_negated_view(mode, bit):
    values = {"x": torch.randn(3, dtype=torch.complex64)}
    history = tc.History(values=values, rng=False, mode=mode)
    first, wanted = history.take(), bits(values)
    values["x"] = bit(values["x"])
    second, flipped = history.take(), bits(values)
    assert wanted != flipped
    assert differences(bits(first.state("values")), wanted) == []
    assert differences(bits(second.state("values")), flipped) == []
    first.restore()
    assert differences(bits(values), wanted) == []
    second.restore()
    assert differences(bits(values), flipped) == []
