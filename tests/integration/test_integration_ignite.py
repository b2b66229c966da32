"""The handlers in real Ignite trainings."""

import itertools
import math

import numpy as np
import pytest
import torch
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import Checkpoint, DiskSaver, LRScheduler
from ignite.metrics import Loss
from same_bits import same, state_of
from torch import nn

from torchcopy import InputError
from torchcopy.integrations import RollbackWarning
from torchcopy.integrations.ignite import BestWeights, RollbackOnNaN

pytestmark = pytest.mark.usefixtures("one_thread", "seeded")
MODES = ("eager", "lazy", "background")


class Run:
    """A small network, what trains it, and data; the loss of some iterations is spoilt."""

    def __init__(self, *, nan_at=(), accumulate=1, steps_scheduler=True, **options):
        generator = torch.Generator().manual_seed(1)
        inputs, targets = torch.randn(48, 4, generator=generator), torch.randint(2, (48,), generator=generator)
        self.data = list(zip(inputs.split(8), targets.split(8), strict=True))
        self.model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05, **options)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3)

        def spoilt_loss(predicted, target):
            loss = nn.functional.cross_entropy(predicted, target)
            return loss * math.nan if self.trainer.state.iteration in nan_at else loss

        self.trainer = create_supervised_trainer(
            self.model, self.optimizer, spoilt_loss, gradient_accumulation_steps=accumulate
        )
        if steps_scheduler:
            each_step = Events.ITERATION_COMPLETED(every=accumulate)
            self.trainer.add_event_handler(each_step, lambda: self.scheduler.step())

    @property
    def parts(self):
        """All that goes back."""
        return {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler}

    def record(self, event, states):
        """Copies the state by hand, each time the event happens."""
        self.trainer.add_event_handler(event, lambda: states.append(state_of(**self.parts)))


def evaluated(run, losses):
    """An engine that gives a loss for each epoch, in order; it runs when an epoch of the trainer ends."""
    evaluator = Engine(lambda engine, batch: None)
    given = iter(losses)

    @evaluator.on(Events.COMPLETED)
    def _(engine):
        engine.state.metrics["loss"] = next(given)

    run.trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run([0]))
    return evaluator


# --- best weights ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_the_best_weights_come_back_at_the_end(mode):
    run, states = Run(fused=True), []
    run.record(Events.EPOCH_COMPLETED, states)
    evaluator = evaluated(run, [0.9, 0.3, 0.5, 0.7])
    best = BestWeights(run.model, run.trainer, score_name="loss", mode="min", snapshot_mode=mode)
    evaluator.add_event_handler(Events.COMPLETED, best)
    run.trainer.run(run.data, max_epochs=4)
    assert same(run.model.state_dict(), states[1]["model"])
    assert not same(states[1]["model"], states[3]["model"])
    assert best.best_score == pytest.approx(0.3)
    assert best.best.labels == {"step": 12, "epoch": 2, "loss": 0.3}
    assert len(best.history) == 1

    with torch.no_grad():
        run.model[0].weight.zero_()
    handed_out = best.best.state_dict("model")
    assert same(handed_out, states[1]["model"])
    handed_out["0.weight"].fill_(7)
    assert same(best.best.state_dict("model"), states[1]["model"])
    assert bool((run.model[0].weight == 0).all())


def test_a_score_function_and_a_real_metric():
    run, states, seen = Run(), [], []
    run.record(Events.EPOCH_COMPLETED, states)
    evaluator = create_supervised_evaluator(run.model, {"nll": Loss(nn.functional.cross_entropy)})
    run.trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(run.data))

    def score(engine):
        seen.append(-engine.state.metrics["nll"])
        return seen[-1]

    best = BestWeights(run.model, run.trainer, score, keep=2)
    evaluator.add_event_handler(Events.COMPLETED, best)
    run.trainer.run(run.data, max_epochs=5)
    assert len(set(seen)) == 5
    assert same(run.model.state_dict(), states[seen.index(max(seen))]["model"])
    assert best.best_score == max(seen)
    assert [each.labels["epoch"] for each in best.history][-2:] == [4, 5]
    assert [same(each.state_dict("model"), states[each.labels["epoch"] - 1]["model"]) for each in best.history] == [
        True
    ] * len(best.history)


def test_a_terminated_training_ends_with_the_best_weights_too():
    run, states = Run(), []
    run.record(Events.EPOCH_COMPLETED, states)
    evaluator = evaluated(run, [0.3, 0.9])
    evaluator.add_event_handler(Events.COMPLETED, BestWeights(run.model, run.trainer, None, "loss", "min"))
    run.trainer.add_event_handler(Events.EPOCH_COMPLETED(once=2), lambda: run.trainer.terminate())
    run.trainer.run(run.data, max_epochs=9)
    assert len(states) == 2
    assert same(run.model.state_dict(), states[0]["model"])


@pytest.mark.parametrize("order", [("model", "best"), ("best", "model")], ids=" then ".join)
def test_a_resumed_training_ends_with_the_best_of_both_parts(order, tmp_path):
    first, states = Run(), []
    first.record(Events.EPOCH_COMPLETED, states)
    evaluator = evaluated(first, [0.9, 0.3, 0.5])
    best = BestWeights(first.model, first.trainer, None, "loss", "min")
    evaluator.add_event_handler(Events.COMPLETED, best)
    to_save = {"best": best, **first.parts, "trainer": first.trainer}
    saving = Checkpoint(to_save, DiskSaver(tmp_path, require_empty=False), filename_pattern="all.pt")
    first.trainer.add_event_handler(Events.EPOCH_COMPLETED, saving)
    first.trainer.run(first.data, max_epochs=3)

    second = Run()
    evaluator = evaluated(second, [0.7])
    best = BestWeights(second.model, second.trainer, None, "loss", "min")
    evaluator.add_event_handler(Events.COMPLETED, best)
    state = torch.load(tmp_path / "all.pt", weights_only=True)
    objects = {"best": best, **second.parts, "trainer": second.trainer}
    ordered = {name: objects[name] for name in (*order, "optimizer", "scheduler", "trainer")}
    Checkpoint.load_objects(ordered, state)
    assert same(state_of(**second.parts), states[2])
    second.trainer.run(second.data, max_epochs=4)
    assert best.best_score == pytest.approx(0.3)
    assert best.best.labels["epoch"] == 2
    assert same(second.model.state_dict(), states[1]["model"])


def test_what_is_best_has_to_be_said_and_to_be_there():
    run = Run()
    with pytest.raises(InputError, match="say what is best: score_name=… for a metric"):
        BestWeights(run.model, run.trainer)
    evaluator = evaluated(run, [0.5])
    evaluator.add_event_handler(Events.COMPLETED, BestWeights(run.model, run.trainer, score_name="los"))
    with pytest.raises(InputError, match="the evaluator has no metric 'los': there are 'loss'"):
        run.trainer.run(run.data, max_epochs=1)


# --- rollback ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_nan_loss_brings_the_run_back_to_exactly_the_last_good_state(mode):
    run, good, then = Run(nan_at=[6], fused=True), [], []
    run.record(Events.ITERATION_COMPLETED, good)
    back = RollbackOnNaN(run.parts, every=2, snapshot_mode=mode)
    back.attach(run.trainer)
    run.record(Events.ITERATION_COMPLETED, then)
    with pytest.warns(RollbackWarning, match="the loss is nan at step 6: the run is back .* after step 4 .1 of"):
        run.trainer.run(run.data, max_epochs=2)
    assert bool(good[5]["model"]["0.weight"].isnan().any())
    assert same(then[5], good[3])
    assert run.trainer.state.iteration == 12
    assert back.rollbacks == 1
    assert [not same(a["model"], b["model"]) for a, b in itertools.pairwise(then[5:])] == [True] * 6
    assert bool(then[11]["model"]["0.weight"].isfinite().all())

    with torch.no_grad():
        run.model[0].weight.zero_()
    newest = back.history[-1]
    assert newest.labels["step"] == 12
    newest.state_dict("model")["0.weight"].fill_(7)
    assert same({name: newest.state_dict(name) for name in run.parts}, then[11])
    assert bool((run.model[0].weight == 0).all())


@pytest.mark.parametrize("wrapped", [False, True], ids=["PyTorch's scheduler", "Ignite's around it"])
def test_the_learning_rate_is_smaller_and_the_schedulers_keep_it(wrapped):
    run, rates = Run(nan_at=[2], steps_scheduler=not wrapped), []
    parts = run.parts
    if wrapped:
        parts["scheduler"] = LRScheduler(run.scheduler)
        run.trainer.add_event_handler(Events.ITERATION_COMPLETED, parts["scheduler"])
    RollbackOnNaN(parts, every=1, lr_factor=0.5).attach(run.trainer)
    run.trainer.add_event_handler(
        Events.ITERATION_COMPLETED, lambda: rates.append(run.optimizer.param_groups[0]["lr"])
    )
    with pytest.warns(RollbackWarning, match=r"its learning rate multiplied by 0\.5 \(1 of at most 3 times\)"):
        run.trainer.run(run.data, max_epochs=1)
    # Divided by 10 after three steps, of which the second was undone; Ignite's begins one step later.
    fourth = 0.025 if wrapped else 0.0025
    assert rates == pytest.approx([0.05, 0.025, 0.025, fourth, 0.0025, 0.0025])


def test_a_run_that_fails_too_often_is_terminated_at_a_good_state():
    run, good = Run(nan_at=range(4, 99)), []
    run.record(Events.ITERATION_COMPLETED, good)
    back = RollbackOnNaN(run.parts, every=1, max_rollbacks=1)
    back.attach(run.trainer)
    with pytest.warns(RollbackWarning) as told:
        run.trainer.run(run.data, max_epochs=9)
    assert [word in str(each.message) for word, each in zip(("(1 of", "and stops"), told, strict=True)] == [
        True
    ] * 2
    assert run.trainer.state.iteration == 5
    assert same(state_of(**run.parts), good[1])
    assert back.state_dict() == {"rollbacks": 1}


def test_accumulated_gradients_of_a_bad_batch_go_too():
    run, then = Run(nan_at=[3], accumulate=2), []
    RollbackOnNaN(run.parts, every=1).attach(run.trainer)
    run.record(Events.ITERATION_COMPLETED, then)
    with pytest.warns(RollbackWarning, match="the loss is nan at step 3"):
        run.trainer.run(run.data, max_epochs=1)
    assert same(then[2], then[1])
    assert not same(then[3]["model"], then[2]["model"])
    assert bool(then[3]["model"]["0.weight"].isfinite().all())


def test_the_scaler_of_mixed_precision_goes_back_too():
    model, scaler = nn.Linear(4, 2), torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    parts = {"model": model, "optimizer": optimizer, "scaler": scaler}

    def step(engine, factor):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.ones(3, 4)).square().mean() * factor
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return {"loss": loss.detach(), "name": "a word is no number"}

    trainer, good, then = Engine(step), [], []
    trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda: good.append(state_of(**parts)))
    RollbackOnNaN(parts, every=1).attach(trainer)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda: then.append(state_of(**parts)))
    with pytest.warns(RollbackWarning, match="the loss is nan at step 4"):
        trainer.run([1.0, 1.0, 1.0, math.nan, 1.0], max_epochs=1)
    assert good[3]["scaler"] != good[2]["scaler"]
    assert same(then[3], good[2])
    assert not same(then[4]["model"], then[3]["model"])


def test_the_output_may_be_a_nest_and_the_threshold_is_for_the_loss_in_it():
    model = nn.Linear(2, 1)
    losses = [[0.1, {"a": torch.tensor([0.2, 5.0])}], (1, [math.inf])]
    trainer = Engine(lambda engine, batch: ("output", batch))
    back = RollbackOnNaN({"model": model}, divergence_threshold=2.0, output_transform=lambda output: output[1])
    back.attach(trainer)
    with pytest.warns(RollbackWarning) as told:
        trainer.run(losses, max_epochs=1)
    assert str(told[0].message).startswith("the loss, 5, is above 2 at step 1")
    assert str(told[1].message).startswith("the loss is inf at step 2")


@pytest.mark.parametrize("spoilt", [math.nan, math.inf, 5.0])
@pytest.mark.parametrize(
    "array",
    [
        lambda x: np.array(x),
        lambda x: np.float32(x),
        lambda x: np.array([[0.5, x]], dtype=np.float16),
        lambda x: np.array([0.5, x, 1.0], dtype=">f4")[::-1],
        lambda x: np.array([0.5, [torch.tensor(x)]], dtype=object),
        lambda x: {"names": np.array(["a"]), "steps": np.arange(2), "loss": [np.array([x])]},
    ],
    ids=["single", "scalar", "half", "big endian reversed", "objects", "nest"],
)
def test_the_output_may_be_numpy_arrays(array, spoilt):
    model = nn.Linear(2, 1)
    good = model.weight.detach().clone()

    def step(_, loss):
        with torch.no_grad():
            model.weight.add_(1)
        return array(loss)

    trainer = Engine(step)
    RollbackOnNaN({"model": model}, every=1, divergence_threshold=2.0).attach(trainer)
    with pytest.warns(RollbackWarning, match=r"at step 3: the run is back at what it was after step 2"):
        trainer.run([0.5, 0.25, spoilt, 0.5], max_epochs=1)
    torch.testing.assert_close(model.weight.detach(), good + 3)


def test_one_bad_process_brings_all_of_them_back(tmp_path):
    meeting = str(tmp_path / "meeting")
    other = torch.multiprocessing.spawn(_process, (meeting, 1), nprocs=1, join=False)
    _process(0, meeting, 0)
    while not other.join():
        pass


def _process(_, meeting, rank):
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    run, good, then = Run(nan_at=[4] if rank == 1 else []), [], []
    run.record(Events.ITERATION_COMPLETED, good)
    RollbackOnNaN(run.parts, every=1).attach(run.trainer)
    run.record(Events.ITERATION_COMPLETED, then)
    with pytest.warns(RollbackWarning, match="the loss is nan" if rank == 1 else "the loss of another process"):
        run.trainer.run(run.data, max_epochs=1)
    assert same(then[3], good[2])
    assert not same(then[4]["model"], then[3]["model"])
    torch.distributed.destroy_process_group()


def test_the_trainer_itself_is_refused():
    run = Run()
    with pytest.raises(InputError, match=r"`to_save\['trainer'\]` is an engine: its data go on"):
        RollbackOnNaN({**run.parts, "trainer": run.trainer})


def test_the_count_of_rollbacks_goes_on_after_a_checkpoint():
    back = RollbackOnNaN({"model": nn.Linear(1, 1)})
    back.load_state_dict({"rollbacks": 2})
    assert back.rollbacks == 2
