"""A restored run goes on as the first time, to the bit: parameters, buffers, states, random numbers, losses."""

import functools

import pytest
import torch
from torch import optim
from torch.optim import lr_scheduler

import torchcopy as tc
from bitwise import bits, differences
from training_runs import MODES, Run, everyday_model, seed_everything

pytestmark = pytest.mark.usefixtures("one_thread")

OPTIMIZERS = {
    "SGD": functools.partial(optim.SGD, lr=0.1),
    "SGD-momentum": functools.partial(optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
    "SGD-fused": functools.partial(optim.SGD, lr=0.1, momentum=0.9, fused=True),
    "Adam": functools.partial(optim.Adam, lr=0.01),
    "Adam-amsgrad": functools.partial(optim.Adam, lr=0.01, amsgrad=True),
    "Adam-tensor-lr": lambda p: optim.Adam(p, lr=torch.tensor(0.01), foreach=False),
    "AdamW-fused": functools.partial(optim.AdamW, lr=0.01, fused=True),
    "AdamW-foreach": functools.partial(optim.AdamW, lr=0.01, foreach=True),
    "AdamW-single": functools.partial(optim.AdamW, lr=0.01, foreach=False),
    "Adagrad": functools.partial(optim.Adagrad, lr=0.1),
    "Adadelta": optim.Adadelta,
    "Adafactor": functools.partial(optim.Adafactor, lr=0.1),
    "Adamax": functools.partial(optim.Adamax, lr=0.01),
    "ASGD": functools.partial(optim.ASGD, lr=0.1),
    "LBFGS": functools.partial(optim.LBFGS, lr=0.1, max_iter=4, history_size=5),
    "LBFGS-strong-wolfe": functools.partial(optim.LBFGS, max_iter=4, line_search_fn="strong_wolfe"),
    "NAdam": functools.partial(optim.NAdam, lr=0.01),
    "RAdam": functools.partial(optim.RAdam, lr=0.01),
    "RMSprop": functools.partial(optim.RMSprop, lr=0.01, momentum=0.9, centered=True),
    "Rprop": functools.partial(optim.Rprop, lr=0.01),
}

SCHEDULERS = {
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1, factor=0.5),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=40),
    "OneCycleLR-linear": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=40, anneal_strategy="linear"),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=3, T_mult=2),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.1, 5), lr_scheduler.ExponentialLR(o, 0.9)], milestones=[12]
    ),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.LinearLR(o, 0.1, 1.0, 15), lr_scheduler.StepLR(o, 4)]
    ),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.001, 0.1, step_size_up=4),
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
}


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


def assert_goes_on_exactly(run, mode, before=10, after=10, times=2):
    """Trains, takes, trains; then restores and trains again, and everything has to be as the first time."""
    history = tc.History(**run.parts, mode=mode)
    run.train(before)
    snapshot = history.take(step=before)
    here = run.bits()
    losses = run.train(after)
    there = run.bits()
    assert differences(here, there), "nothing happened, so nothing was tested"
    for _ in range(times):
        snapshot.restore()
        assert differences(run.bits(), here) == []
        assert bits(run.train(after)) == bits(losses)
        assert differences(run.bits(), there) == []


@pytest.mark.parametrize("make_optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_with_each_optimizer(mode, make_optimizer):
    seed_everything()
    assert_goes_on_exactly(Run(everyday_model(), make_optimizer), mode)


@pytest.mark.parametrize("make_scheduler", SCHEDULERS.values(), ids=SCHEDULERS)
def test_with_each_scheduler(mode, make_scheduler):
    seed_everything()
    run = Run(everyday_model(), functools.partial(optim.SGD, lr=0.1, momentum=0.9), make_scheduler)
    assert_goes_on_exactly(run, mode)


@pytest.mark.parametrize("name", ["SGD-momentum", "AdamW-fused"])
def test_with_autocast(mode, name):
    seed_everything()
    autocast = functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16)
    assert_goes_on_exactly(Run(everyday_model(), OPTIMIZERS[name], autocast=autocast), mode)


@pytest.mark.parametrize("name", ["SGD-momentum", "AdamW-fused"])
def test_with_a_gradient_scaler(mode, name):
    """Its scale grows every three steps, and falls when it has grown too far."""
    seed_everything()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**13, growth_interval=3, growth_factor=4.0)
    autocast = functools.partial(torch.autocast, "cpu", dtype=torch.float16)
    run = Run(everyday_model(), OPTIMIZERS[name], scaler=scaler, autocast=autocast)
    assert_goes_on_exactly(run, mode)
    assert scaler.get_scale() != 2.0**13


def test_with_all_together(mode):
    seed_everything()
    run = Run(
        everyday_model(),
        lambda p: optim.AdamW(p, lr=0.01, fused=True),
        SCHEDULERS["ReduceLROnPlateau"],
        torch.amp.GradScaler("cpu", growth_interval=3),
        functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16),
    )
    assert_goes_on_exactly(run, mode)


@pytest.mark.parametrize("name", ["SGD-momentum", "AdamW-fused", "LBFGS", "Adafactor", "NAdam"])
def test_from_before_the_first_step(mode, name):
    """What the optimizer made since is removed: otherwise the first step would be another one."""
    seed_everything()
    run = Run(everyday_model(), OPTIMIZERS[name])
    assert_goes_on_exactly(run, mode, before=0)


def test_into_an_optimizer_whose_state_is_gone(mode):
    seed_everything()
    run = Run(everyday_model(), OPTIMIZERS["AdamW-fused"])
    history = tc.History(**run.parts, mode=mode)
    run.train(5)
    snapshot = history.take()
    losses = run.train(5)
    there = run.bits()
    run.optimizer.state.clear()
    snapshot.restore()
    assert bits(run.train(5)) == bits(losses)
    assert differences(run.bits(), there) == []


def test_optimizer_state_keeps_its_dtype_where_its_place_is_gone(mode):
    """`Optimizer.load_state_dict` would cast it to the parameter's."""
    model = torch.nn.Linear(2, 2).bfloat16()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for p in model.parameters():
        optimizer.state[p]["momentum_buffer"] = torch.full(p.shape, 1 / 3)
    history = tc.History(model=model, optimizer=optimizer, mode=mode)
    snapshot = history.take()
    before = bits(optimizer.state_dict())
    optimizer.state.clear()
    snapshot.restore()
    assert differences(bits(optimizer.state_dict()), before) == []


def test_into_a_run_with_other_settings(mode):
    seed_everything()
    run = Run(everyday_model(), OPTIMIZERS["AdamW-foreach"], SCHEDULERS["SequentialLR"])
    history = tc.History(**run.parts, mode=mode)
    run.train(8)
    snapshot = history.take()
    here, losses = run.bits(), run.train(8)
    for group in run.optimizer.param_groups:
        group.update(lr=3.0, betas=(0.1, 0.2), weight_decay=0.5, foreach=False, own="something")
        group["lr"] = torch.tensor(3.0)
    snapshot.restore()
    assert differences(run.bits(), here) == []
    assert bits(run.train(8)) == bits(losses)


def test_every_snapshot_of_a_run_in_any_order(mode):
    seed_everything()
    run = Run(everyday_model(), OPTIMIZERS["AdamW-fused"], SCHEDULERS["OneCycleLR"])
    history = tc.History(**run.parts, mode=mode, keep=None)
    seen, losses = [], []
    for step in range(8):
        history.take(step=step)
        seen.append(run.bits())
        losses += run.train(1)
    for step in (7, 0, 3, 3, 6, 1, 5):
        history.at(step=step).restore()
        assert differences(run.bits(), seen[step]) == []
        assert bits(run.train(8 - step)) == bits(losses[step:])


def test_on_into_the_history_after_a_restore(mode):
    """Snapshots that were taken after a restore, and those before it, keep what they had."""
    seed_everything()
    run = Run(everyday_model(), OPTIMIZERS["AdamW-fused"])
    history = tc.History(**run.parts, mode=mode, keep=None)
    seen = []
    for _ in range(6):
        run.train(2)
        history.take()
        seen.append(run.bits())
        history[len(history) // 2].restore()
        history.take()
        seen.append(run.bits())
    for snapshot, wanted in zip(history, seen, strict=True):
        snapshot.restore()
        assert differences(run.bits(), wanted) == []


def test_random_numbers_without_the_shared_generators():
    """With `rng=False` what everybody shares is left alone, and the generators that are parts are not."""
    seed_everything()
    own = torch.Generator().manual_seed(3)
    history = tc.History(own=own, rng=False)
    snapshot = history.take()
    drawn = torch.rand(3, generator=own)
    before = torch.get_rng_state()
    snapshot.restore()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(torch.rand(3, generator=own), drawn)
