"""What a training run holds beside model and optimizer: schedulers, scalers, generators, averages."""

import functools
import math

import pytest
import torch
from copy_structure import assert_nothing_shared, assert_same_structure, assert_writes_stay_apart
from torch import nn, optim
from torch.optim import lr_scheduler, swa_utils
from training_steps import (
    all_equal,
    assert_the_next_steps_are_the_same,
    parameters_of,
    small_model,
    subclasses_in,
    train_one_step,
    weights_of,
)

import torchcopy as tc

pytestmark = pytest.mark.usefixtures("one_thread", "seeded")


class Warmup:
    """A callable object: schedulers keep its state in theirs."""

    def __init__(self, steps):
        self.steps = [steps]

    def __call__(self, epoch):
        return min(1.0, (epoch + 1) / self.steps[0])


def _decay(factor):
    return lambda epoch: factor**epoch


def _sequential(optimizer):
    warm = lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2)
    cosine = lr_scheduler.CosineAnnealingLR(optimizer, 10)
    return lr_scheduler.SequentialLR(optimizer, [warm, cosine, lr_scheduler.ExponentialLR(optimizer, 0.9)], [2, 4])


def _chained(optimizer):
    return lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(optimizer, 0.5, 3), lr_scheduler.ExponentialLR(optimizer, 0.9)], optimizer
    )


def _chain_of_sequences(optimizer):
    return lr_scheduler.ChainedScheduler([_sequential(optimizer), lr_scheduler.StepLR(optimizer, 3)], optimizer)


SCHEDULERS = {
    "ChainedScheduler": _chained,
    "ChainedScheduler, of a sequence": _chain_of_sequences,
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.5, 3),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 4, eta_min=0.01),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 2, mode="triangular2"),
    "CyclicLR, exponential": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 2, mode="exp_range", gamma=0.9),
    "CyclicLR, by a function": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 2, scale_fn=_decay(0.9)),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, _decay(0.9)),
    "LambdaLR, of an object": lambda o: lr_scheduler.LambdaLR(o, Warmup(4)),
    "LambdaLR, of a partial function": lambda o: lr_scheduler.LambdaLR(o, functools.partial(math.pow, 0.9)),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, 0.1, total_iters=3),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [1, 3], 0.5),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda epoch: 0.9),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.2, total_steps=20),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 6, 2.0),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=0),
    "SWALR": lambda o: swa_utils.SWALR(o, 0.01, anneal_epochs=3),
    "SequentialLR": _sequential,
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2, 0.5),
}
every_scheduler = pytest.mark.parametrize("of", SCHEDULERS.values(), ids=SCHEDULERS.keys())


def _step_and_schedule(model, optimizer, scheduler, seed=0):
    loss = train_one_step(model, optimizer, seed)
    scheduler.step(*([1.0] if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else []))
    return loss, optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]


def test_every_scheduler_has_a_case():
    classes = subclasses_in(lr_scheduler, lr_scheduler.LRScheduler) | subclasses_in(
        swa_utils, lr_scheduler.LRScheduler
    )
    assert {name.split(",")[0] for name in SCHEDULERS} == classes - {"LRScheduler", "_LRScheduler"}


@every_scheduler
@pytest.mark.parametrize("steps", [0, 3])
def test_a_copied_scheduler_goes_on_as_its_source(of, steps, make):
    model = small_model()
    optimizer = optim.SGD(parameters_of(model), lr=0.1, momentum=0.9)
    scheduler = of(optimizer)
    for k in range(steps):
        _step_and_schedule(model, optimizer, scheduler, k)
    source = (model, optimizer, scheduler)
    copied = make(source, on_escape="error")
    assert_nothing_shared(source, copied)
    rates = scheduler.get_last_lr()
    assert copied[2].get_last_lr() == rates
    assert_the_next_steps_are_the_same(source, copied, _step_and_schedule, count=6)


@every_scheduler
def test_a_scheduler_is_copied_before_its_optimizer(of):
    model = small_model()
    optimizer = optim.AdamW(parameters_of(model), lr=0.1, betas=(0.8, 0.9))
    scheduler = of(optimizer)
    optimizer.step()
    scheduler.step(*([1.0] if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else []))
    copied = tc.copy({"scheduler": scheduler, "optimizer": optimizer, "model": model}, on_escape="error")
    assert copied["scheduler"].optimizer is copied["optimizer"]
    assert copied["optimizer"].param_groups[0]["params"][0] is copied["model"][0].weight
    before = optimizer.param_groups[0]["lr"]
    copied["optimizer"].param_groups[0]["lr"] = 17.0
    copied["optimizer"].step()
    copied["scheduler"].step(*([1.0] if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else []))
    assert optimizer.param_groups[0]["lr"] == before


@every_scheduler
def test_a_scheduler_alone_is_refused(of):
    model = small_model()
    scheduler = of(optim.SGD(parameters_of(model), lr=0.1, momentum=0.9))
    with pytest.raises(tc.CopyError, match=r"tc\.copy\(\(model, optimizer\)\)"):
        tc.copy(scheduler)
    shared = tc.copy(scheduler, share=[scheduler.optimizer])
    assert shared.optimizer is scheduler.optimizer


def test_a_scheduler_that_follows_a_tensor_of_the_model_is_reported():
    model = small_model()
    optimizer = optim.SGD(parameters_of(model), lr=0.1)
    scheduler = lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0 / (1.0 + float(model[0].weight.detach().norm())))
    with pytest.warns(tc.EscapeWarning, match=r"lr_lambdas\[0\]\.__closure__\['model'\]\[0\]\.weight") as caught:
        tc.copy((model, optimizer, scheduler))
    assert len(caught) == 1


def test_a_scheduler_object_that_both_sides_would_change():
    model = small_model()
    optimizer = optim.SGD(parameters_of(model), lr=0.1)
    scheduler = lr_scheduler.LambdaLR(optimizer, Warmup(4))
    _, _, copied = tc.copy((model, optimizer, scheduler))
    copied.lr_lambdas[0].steps[0] = 1
    assert scheduler.lr_lambdas[0].steps == [4]


# --- scalers, generators, averages ---------------------------------------------------------------------------


def _scaled_step(model, optimizer, scaler, seed=0, factor=1.0):
    torch.manual_seed(seed)
    optimizer.zero_grad()
    loss = model(torch.randn(3, 4)).square().mean() * factor
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return float(loss.detach()), scaler.get_scale(), scaler._get_growth_tracker()


@pytest.mark.parametrize("enabled", [True, False], ids=["enabled", "disabled"])
@pytest.mark.parametrize("steps", [0, 3])
def test_a_scaler_goes_on_as_its_source(enabled, steps, make):
    model = small_model()
    optimizer = optim.SGD(parameters_of(model), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2, enabled=enabled)
    for k in range(steps):
        _scaled_step(model, optimizer, scaler, k)
    source = (model, optimizer, scaler)
    copied = make(source, on_escape="error")
    assert copied[2].state_dict() == scaler.state_dict()
    before = scaler.state_dict()
    its_results = [_scaled_step(*copied, seed=10 + k) for k in range(3)]
    assert scaler.state_dict() == before
    assert [_scaled_step(*source, seed=10 + k) for k in range(3)] == its_results
    assert all_equal(weights_of(model), weights_of(copied[0]))


def test_a_scaler_within_a_step_is_refused():
    model = small_model()
    optimizer = optim.SGD(parameters_of(model), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(torch.ones(1, 4)).sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(tc.CopyError, match=r"`obj\['scaler'\]`.*its step is not over"):
        tc.copy({"scaler": scaler, "model": model})
    scaler.step(optimizer)
    scaler.update()
    assert tc.copy(scaler).get_scale() == scaler.get_scale()


def test_generators_go_on_alike(make):
    generator = torch.Generator().manual_seed(5)
    torch.rand(3, generator=generator)
    loader = torch.utils.data.DataLoader(range(20), 4, shuffle=True, generator=generator)
    copied, its_generator = make((loader, generator))
    assert its_generator is not generator
    assert copied.generator is its_generator
    assert copied.sampler.generator is its_generator
    ours = [batch.tolist() for batch in loader]
    state = generator.get_state()
    theirs = [batch.tolist() for batch in copied]
    assert ours == theirs
    assert torch.equal(generator.get_state(), state)
    assert torch.equal(torch.rand(2, generator=generator), torch.rand(2, generator=its_generator))


AVERAGES = {
    "mean": {},
    "with buffers": {"use_buffers": True},
    "moving, by many": {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.9)},
    "moving, by one": {"avg_fn": swa_utils.get_ema_avg_fn(0.9)},
}


@pytest.mark.parametrize("options", AVERAGES.values(), ids=AVERAGES.keys())
def test_an_average_goes_on_as_its_source(options, make):
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    optimizer = optim.SGD(parameters_of(model), lr=0.1)
    average = swa_utils.AveragedModel(model, **options)

    def step(average, model, optimizer, seed):
        loss = train_one_step(model, optimizer, seed)
        average.update_parameters(model)
        return loss

    for k in range(2):
        step(average, model, optimizer, k)
    source = (average, model, optimizer)
    copied = make(source, on_escape="error")
    assert_same_structure(source, copied)
    assert_nothing_shared(source, copied)
    assert_writes_stay_apart(source, copied)
    assert_the_next_steps_are_the_same(source, copied, step)
    swa_utils.update_bn([torch.randn(3, 4)], copied[0])
    assert not torch.equal(copied[0].module[1].running_mean, average.module[1].running_mean)
