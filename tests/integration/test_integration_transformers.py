"""The callbacks in real trainings by the Trainer of Transformers."""

import itertools
import math
import warnings

import pytest
import torch
from same_bits import same, state_of
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments
from transformers.modeling_outputs import SequenceClassifierOutput

from torchcopy import InputError
from torchcopy.integrations import RollbackWarning
from torchcopy.integrations.transformers import BestWeightsCallback, RollbackOnNaNCallback

pytestmark = [
    pytest.mark.usefixtures("one_thread", "seeded"),
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but no accelerator:UserWarning"),
]
MODES = ("eager", "lazy", "background")


class Network(PreTrainedModel):
    """A small network whose loss is spoilt in some batches of the training."""

    config_class = PretrainedConfig
    main_input_name = "inputs"

    def __init__(self, nan_at=(), spoilt=lambda loss, model: loss * math.nan):
        super().__init__(PretrainedConfig())
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))
        self.nan_at, self.spoilt, self.batches = nan_at, spoilt, 0
        self.post_init()

    def forward(self, inputs, labels=None):
        logits = self.layers(inputs)
        if labels is None:
            return SequenceClassifierOutput(logits=logits)
        loss = nn.functional.cross_entropy(logits, labels)
        if self.training:
            self.batches += 1
            loss = self.spoilt(loss, self) if self.batches in self.nan_at else loss
        return SequenceClassifierOutput(loss=loss, logits=logits)


def data(n=48):
    generator = torch.Generator().manual_seed(1)
    return [
        {"inputs": torch.randn(4, generator=generator), "labels": int(torch.randint(2, (), generator=generator))}
        for _ in range(n)
    ]


class Recorder(TrainerCallback):
    """Copies the state by hand, each time a hook is called."""

    def __init__(self, hook):
        self.states = []
        setattr(self, hook, self.record)

    def record(self, args, state, control, **kwargs):
        self.states.append(state_of(**all_of(kwargs)))


class OtherRecorder(Recorder):
    """The Trainer wants its callbacks to be of different classes."""


def all_of(kwargs):
    """All that goes back."""
    optimizer, scheduler = kwargs["optimizer"], kwargs["lr_scheduler"]
    return {"model": kwargs["model"], "optimizer": optimizer.optimizer, "scheduler": scheduler}


class Evaluated(Trainer):
    """A trainer whose evaluations give the losses that it was made with, in order."""

    losses = ()

    def evaluate(self, *args, **kwargs):
        metrics = {"eval_loss": self.losses[round(self.state.epoch) - 1]}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


def trainer_of(model, path, callbacks, *, losses=None, kind=None, **options):
    settings = {"num_train_epochs": 1, "save_strategy": "no", "lr_scheduler_type": "constant", **options}
    arguments = TrainingArguments(
        output_dir=str(path),
        per_device_train_batch_size=8,
        learning_rate=0.05,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        optim="adamw_torch_fused",
        eval_strategy="no" if losses is None else "epoch",
        **settings,
    )
    trainer = (kind or (Trainer if losses is None else Evaluated))(
        model, arguments, train_dataset=data(), eval_dataset=data(8), callbacks=callbacks
    )
    trainer.losses = losses
    return trainer


# --- best weights ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_the_best_weights_come_back_at_the_end(mode, tmp_path):
    model, record = Network(), Recorder("on_epoch_end")
    best = BestWeightsCallback(snapshot_mode=mode)
    trainer = trainer_of(model, tmp_path, [record, best], losses=[0.9, 0.3, 0.5, 0.7], num_train_epochs=4)
    trainer.train()
    states = record.states
    assert same(model.state_dict(), states[1]["model"])
    assert not same(states[1]["model"], states[3]["model"])
    assert best.best.labels == {"step": 12, "epoch": 2.0, "eval_loss": 0.3}
    assert len(best.history) == 1

    trainer.losses = [0.0] * 4
    trainer.evaluate()  # not a part of the training any more
    assert best.best_score == pytest.approx(0.3)
    with torch.no_grad():
        model.layers[0].weight.zero_()
    handed_out = best.best.state_dict("model")
    assert same(handed_out, states[1]["model"])
    handed_out["layers.0.weight"].fill_(7)
    assert same(best.best.state_dict("model"), states[1]["model"])
    assert bool((model.layers[0].weight == 0).all())


@pytest.mark.parametrize(
    ("options", "arguments", "epoch"),
    [
        ({}, {"metric_for_best_model": "loss", "greater_is_better": True}, 1),
        ({"metric_for_best_model": "loss"}, {}, 2),
        ({"metric_for_best_model": "eval_loss", "greater_is_better": True}, {}, 1),
    ],
    ids=["of the arguments", "its own", "its own, and what is better"],
)
def test_the_metric_is_the_callback_s_or_that_of_the_arguments(options, arguments, epoch, tmp_path):
    model, record = Network(), Recorder("on_epoch_end")
    best = BestWeightsCallback(keep=3, **options)
    trainer_of(model, tmp_path, [record, best], losses=[0.9, 0.3, 0.5], num_train_epochs=3, **arguments).train()
    assert same(model.state_dict(), record.states[epoch - 1]["model"])
    assert [each.labels["epoch"] for each in best.history] == [1, 2, 3]


def test_a_metric_that_never_comes_leaves_the_last_weights(tmp_path):
    model, record = Network(), Recorder("on_epoch_end")
    best = BestWeightsCallback("accuracy")
    with pytest.warns(UserWarning, match="'eval_accuracy' never had a value"):
        trainer_of(model, tmp_path, [record, best], losses=[0.9]).train()
    assert same(model.state_dict(), record.states[0]["model"])
    assert best.best is None


@pytest.mark.parametrize(
    ("losses", "restored"),
    [([0.9, 0.3, 0.5, 0.7], 1), ([0.9, 0.5, 0.3, 0.1], 3), ([0.3, 0.9, 0.9, 0.5], 3)],
    ids=["the checkpoint's weights are the best", "later ones are better", "earlier ones are gone"],
)
def test_a_resumed_training_knows_what_was_before(losses, restored, tmp_path):
    first = Recorder("on_epoch_end")
    saving = {"save_strategy": "epoch"}
    trainer = trainer_of(Network(), tmp_path, [first], losses=losses, num_train_epochs=2, **saving)
    trainer.train()

    model, second, best = Network(), Recorder("on_epoch_end"), BestWeightsCallback()
    trainer = trainer_of(model, tmp_path, [second, best], losses=losses, num_train_epochs=4)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-12"))
    gone = [str(each.message) for each in told if "before the training was resumed" in str(each.message)]
    words = "eval_loss was 0.3 at step 6, before the training was resumed, and those weights are not in memory: "
    assert gone == ([words + "the best since then, 0.5, were restored"] if losses[0] == 0.3 else [])
    states = [*first.states, *second.states]
    assert len(states) == 4
    assert same(model.state_dict(), states[restored]["model"])


# --- rollback ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_nan_loss_brings_the_run_back_to_exactly_the_last_good_state(mode, tmp_path):
    model = Network(nan_at=[6])
    before, after = Recorder("on_step_end"), OtherRecorder("on_step_end")
    back = RollbackOnNaNCallback(every_n_steps=2, snapshot_mode=mode)
    options = {"num_train_epochs": 2, "lr_scheduler_type": "linear"}
    trainer = trainer_of(model, tmp_path, [before, back, after], **options)
    with pytest.warns(RollbackWarning, match="the loss is nan at step 6: the run is back .* after step 4 .1 of"):
        trainer.train()
    good, then = before.states, after.states
    assert bool(good[5]["model"]["layers.0.weight"].isnan().any())
    assert same(then[5], good[3])
    assert trainer.state.global_step == 12
    assert back.rollbacks == 1
    assert [not same(a["model"], b["model"]) for a, b in itertools.pairwise(then[5:])] == [True] * 6
    assert bool(then[11]["model"]["layers.0.weight"].isfinite().all())
    assert len(model._forward_hooks) == 0

    with torch.no_grad():
        model.layers[0].weight.zero_()
    newest = back.history[-1]
    assert newest.labels["step"] == 12
    newest.state_dict("model")["layers.0.weight"].fill_(7)
    assert same({name: newest.state_dict(name) for name in then[11]}, then[11])
    assert bool((model.layers[0].weight == 0).all())


def test_a_bad_batch_among_accumulated_ones_is_seen(tmp_path):
    """Its loss alone is NaN: the sum has a finite gradient."""
    model = Network(nan_at=[5], spoilt=lambda loss, _: loss + math.nan)
    before, after = Recorder("on_step_end"), OtherRecorder("on_step_end")
    callbacks = [before, RollbackOnNaNCallback(every_n_steps=1), after]
    with pytest.warns(RollbackWarning, match="the loss is nan at step 3: .* after step 2"):
        trainer_of(model, tmp_path, callbacks, gradient_accumulation_steps=2).train()
    assert bool(before.states[2]["model"]["layers.0.weight"].isfinite().all())
    assert same(after.states[2], before.states[1])


def test_where_the_model_returns_no_loss_the_gradients_tell(tmp_path):
    class OwnLoss(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            labels = inputs.pop("labels")
            outputs = model(**inputs)
            loss = nn.functional.cross_entropy(outputs.logits, labels)
            loss = loss * math.nan if self.state.global_step == 3 else loss
            return (loss, outputs) if return_outputs else loss

    before, after = Recorder("on_step_end"), OtherRecorder("on_step_end")
    callbacks = [before, RollbackOnNaNCallback(every_n_steps=1), after]
    with pytest.warns(RollbackWarning, match="a gradient is not finite at step 4: .* after step 3"):
        trainer_of(Network(), tmp_path, callbacks, kind=OwnLoss).train()
    assert same(after.states[3], before.states[2])
    assert bool(after.states[5]["model"]["layers.0.weight"].isfinite().all())


def test_the_learning_rate_is_smaller_and_the_scheduler_keeps_it(tmp_path):
    after = OtherRecorder("on_step_end")
    callbacks = [RollbackOnNaNCallback(every_n_steps=1, lr_factor=0.5), after]
    with pytest.warns(RollbackWarning, match=r"learning rate multiplied by 0\.5"):
        trainer_of(Network(nan_at=[2]), tmp_path, callbacks, lr_scheduler_type="linear").train()
    rates = [state["optimizer"]["param_groups"][0]["lr"] for state in after.states]
    # Down to 0 in six steps, of which the second was undone.
    assert rates == pytest.approx([0.05 * 5 / 6, *(0.025 * k / 6 for k in (5, 4, 3, 2, 1))])


def test_a_run_that_fails_too_often_is_stopped_at_a_good_state(tmp_path):
    model, before = Network(nan_at=range(4, 99)), Recorder("on_step_end")
    back = RollbackOnNaNCallback(every_n_steps=1, max_rollbacks=1)
    trainer = trainer_of(model, tmp_path, [before, back], num_train_epochs=9)
    with pytest.warns(RollbackWarning) as told:
        trainer.train()
    messages = [str(each.message) for each in told if issubclass(each.category, RollbackWarning)]
    assert [word in message for word, message in zip(("(1 of", "and stops"), messages, strict=True)] == [True] * 2
    assert trainer.state.global_step == 5
    assert same(model.state_dict(), before.states[1]["model"])


def test_the_scaler_of_mixed_precision_goes_back_too(tmp_path):
    """On a CPU the Trainer has none of its own: here its Accelerator is given one."""

    class Scaled(Trainer):
        def create_accelerator_and_postprocess(self):
            super().create_accelerator_and_postprocess()
            self.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
            self.accelerator.native_amp = True

    class ScalerRecorder(Recorder):
        def record(self, args, state, control, **kwargs):
            self.states.append(state_of(model=kwargs["model"], scaler=kwargs["optimizer"].scaler))

    class OtherScalerRecorder(ScalerRecorder):
        pass

    before, after = ScalerRecorder("on_step_end"), OtherScalerRecorder("on_step_end")
    back = RollbackOnNaNCallback(every_n_steps=1)
    trainer = trainer_of(Network(nan_at=[4]), tmp_path, [before, back, after], kind=Scaled)
    with pytest.warns(RollbackWarning, match="the loss is nan at step 4"):
        trainer.train()
    assert back.history[-1].parts == ("model", "optimizer", "scheduler", "scaler")
    assert before.states[3]["scaler"] != before.states[2]["scaler"]
    assert same(after.states[3], before.states[2])


def test_wrong_options_are_refused_at_once():
    with pytest.raises(InputError, match="`keep` must be a number of snapshots from 0 on; got -1"):
        BestWeightsCallback(keep=-1)
    with pytest.raises(InputError, match="`mode` must be one of 'eager', 'lazy', 'background'"):
        RollbackOnNaNCallback(snapshot_mode="fast")
