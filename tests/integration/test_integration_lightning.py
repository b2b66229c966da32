"""The callbacks in real Lightning trainings, in both packages it comes in."""

import importlib
import itertools
import math
import sys

import lightning.pytorch
import pytest
import pytorch_lightning
import torch
from same_bits import same, state_of
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from torchcopy import InputError
from torchcopy.integrations import RollbackWarning
from torchcopy.integrations.lightning import BestWeights, RollbackOnNaN

pytestmark = [
    pytest.mark.usefixtures("one_thread", "seeded"),
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
]
MODES = ("eager", "lazy", "background")
LIBRARIES = pytest.mark.parametrize("library", [lightning.pytorch, pytorch_lightning], ids=lambda m: m.__name__)


def make_module(library, *, val_losses=(), nan_at=(), spoilt=lambda loss, module: loss * math.nan):
    """A small network; what a validation logs, and in which batches the loss is spoilt and how, is given."""

    class Network(library.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
            self.batches = 0

        def training_step(self, batch):
            inputs, targets = batch
            loss = nn.functional.cross_entropy(self.layers(inputs), targets)
            self.batches += 1
            self.log("train_loss", loss)
            return spoilt(loss, self) if self.batches in nan_at else loss

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=0.05, fused=True)
            return [optimizer], [{"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 3), "interval": "step"}]

    class Validated(Network):
        def validation_step(self, batch):
            if not self.trainer.sanity_checking:
                self.log("val_loss", val_losses[self.current_epoch])

    return Validated() if val_losses else Network()


def data(n=48, batch_size=8):
    generator = torch.Generator().manual_seed(1)
    inputs, targets = torch.randn(n, 4, generator=generator), torch.randint(2, (n,), generator=generator)
    return DataLoader(TensorDataset(inputs, targets), batch_size=batch_size)


def trainer_of(library, callbacks, **options):
    settings = {"enable_checkpointing": False, "max_epochs": 1, **options}
    return library.Trainer(
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=callbacks,
        **settings,
    )


def recorder(library, hook, of=lambda trainer, module: {"model": module}):
    """A callback that copies the state by hand, each time the hook is called, and the states it got."""
    states = []

    def record(self, trainer, pl_module, *_):
        if not trainer.sanity_checking:
            states.append(state_of(**of(trainer, pl_module)))

    return type("Recorder", (library.Callback,), {hook: record})(), states


def all_of(trainer, module):
    """All that goes back."""
    objects = {"model": module, "scheduler": trainer.lr_scheduler_configs[0].scheduler}
    return {**objects, "optimizer": trainer.optimizers[0]}


def messages(told):
    """Those of the rollbacks, among all warnings."""
    return [str(each.message) for each in told if issubclass(each.category, RollbackWarning)]


# --- best weights ------------------------------------------------------------------------------------------------


@LIBRARIES
@pytest.mark.parametrize("mode", MODES)
def test_the_best_weights_come_back_at_the_end(library, mode):
    record, states = recorder(library, "on_validation_end")
    best = BestWeights("val_loss", snapshot_mode=mode)
    module = make_module(library, val_losses=[0.9, 0.3, 0.5, 0.7])
    trainer_of(library, [record, best], max_epochs=4).fit(module, data(), data())
    assert same(state_of(model=module), states[1])
    assert not same(states[1], states[3])
    assert best.best_score == pytest.approx(0.3)
    assert best.best.labels["epoch"] == 1
    assert len(best.history) == 1

    with torch.no_grad():
        module.layers[0].weight.zero_()
    handed_out = best.best.state_dict("model")
    assert same({"model": handed_out}, states[1])
    handed_out["layers.0.weight"].fill_(7)
    assert same({"model": best.best.state_dict("model")}, states[1])
    assert bool((module.layers[0].weight == 0).all())


def test_the_newest_are_kept_too_and_max_is_the_other_way_round():
    library = lightning.pytorch
    record, states = recorder(library, "on_validation_end")
    best = BestWeights("val_loss", mode="max", keep=2)
    module = make_module(library, val_losses=[0.9, 0.3, math.nan, 0.7, 9.9])
    trainer = trainer_of(library, [record, best], max_epochs=4)
    trainer.fit(module, data(), data())
    trainer.validate(module, data(), verbose=False)  # not a part of the training any more
    assert [each.labels["epoch"] for each in best.history] == [0, 2, 3]
    assert [same({"model": each.state_dict("model")}, states[each.labels["epoch"]]) for each in best.history] == [
        True
    ] * 3
    assert same(state_of(model=module), states[0])


def test_a_metric_of_the_training_is_looked_at_when_its_epoch_ends():
    library = lightning.pytorch
    record, states = recorder(library, "on_train_epoch_end")
    best = BestWeights("train_loss", keep=9)
    module = make_module(library)
    trainer_of(library, [record, best], max_epochs=3).fit(module, data())
    seen = [each.labels["train_loss"] for each in best.history]
    assert len(seen) == 3
    assert same(state_of(model=module), states[seen.index(min(seen))])


def test_a_metric_that_is_not_there_is_an_error_that_names_those_that_are():
    module = make_module(lightning.pytorch, val_losses=[1.0])
    trainer = trainer_of(lightning.pytorch, [BestWeights("val_los")])
    with pytest.raises(InputError, match=r"no such metric here, there are 'train_loss', 'val_loss'\. Call"):
        trainer.fit(module, data(), data())


def test_a_metric_that_is_never_a_number_leaves_the_last_weights():
    library = lightning.pytorch
    record, states = recorder(library, "on_validation_end")
    module = make_module(library, val_losses=[math.nan])
    trainer = trainer_of(library, [record, BestWeights("val_loss")])
    with pytest.warns(UserWarning, match="'val_loss' never had a value that is a number"):
        trainer.fit(module, data(), data())
    assert same(state_of(model=module), states[0])


@LIBRARIES
@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
def test_a_resumed_training_ends_with_the_best_of_both_parts(library, tmp_path):
    losses = [0.9, 0.3, 0.5, 0.7]
    record, states = recorder(library, "on_validation_end")

    def saving():
        return library.callbacks.ModelCheckpoint(dirpath=tmp_path, filename="{epoch}", save_top_k=-1)

    first = [record, BestWeights("val_loss"), saving()]
    module = make_module(library, val_losses=losses)
    trainer_of(library, first, max_epochs=3, enable_checkpointing=True).fit(module, data(), data())

    best = BestWeights("val_loss")
    record, later = recorder(library, "on_validation_end")
    resumed = make_module(library, val_losses=losses)
    path = tmp_path / "epoch=2.ckpt"
    saved = torch.load(path, weights_only=True)["state_dict"]
    watch, at_start = recorder(library, "on_train_start")
    trainer = trainer_of(library, [watch, record, best, saving()], max_epochs=4, enable_checkpointing=True)
    trainer.fit(resumed, data(), data(), ckpt_path=path)
    assert same(at_start[0]["model"], saved)
    assert same(saved, states[2]["model"])
    assert best.best_score == pytest.approx(0.3)
    assert best.best.labels["epoch"] == 1
    assert len(later) == 1
    assert same(state_of(model=resumed), states[1])


# --- rollback ----------------------------------------------------------------------------------------------------


@LIBRARIES
@pytest.mark.parametrize("mode", MODES)
def test_a_nan_loss_brings_the_run_back_to_exactly_the_last_good_state(library, mode):
    before, good = recorder(library, "on_train_batch_end", all_of)
    after, then = recorder(library, "on_train_batch_end", all_of)
    module = make_module(library, nan_at=[6])
    back = RollbackOnNaN(every_n_steps=2, snapshot_mode=mode)
    trainer = trainer_of(library, [before, back, after], max_epochs=2)
    with pytest.warns(RollbackWarning, match="the loss is nan at step 6: the run is back .* after step 4 .1 of"):
        trainer.fit(module, data())
    assert bool(good[5]["model"]["layers.0.weight"].isnan().any())
    assert same(then[5], good[3])
    assert trainer.global_step == 12
    assert back.rollbacks == 1
    assert all(bool(t.isfinite().all()) for state in then for t in state["model"].values())
    moved = [not same(a["model"], b["model"]) for a, b in itertools.pairwise(then[5:])]
    assert moved == [True] * 6

    with torch.no_grad():
        module.layers[0].weight.zero_()
    newest = back.history[-1]
    assert newest.labels["step"] == 12
    assert same(newest.state_dict("model"), then[11]["model"])
    newest.state_dict("model")["layers.0.weight"].fill_(7)
    assert same(newest.state_dict("optimizer"), then[11]["optimizer"])
    assert bool((module.layers[0].weight == 0).all())


def test_the_learning_rate_is_smaller_each_time_and_its_scheduler_keeps_it():
    library = lightning.pytorch
    after, then = recorder(library, "on_train_batch_end", all_of)
    module = make_module(library, nan_at=[2, 3, 5])
    back = RollbackOnNaN(every_n_steps=1, lr_factor=0.5, keep=9)
    trainer = trainer_of(library, [back, after], max_epochs=2)
    with pytest.warns(RollbackWarning, match="learning rate multiplied by") as told:
        trainer.fit(module, data())
    rates = [state["optimizer"]["param_groups"][0]["lr"] for state in then]
    # Divided by 10 after each three steps. What was undone is no step of the scheduler: the fourth batch is the
    # first again, the sixth the second.
    wanted = [0.05, 0.025, 0.0125, 0.0125, 0.00625, 0.00625, 6.25e-4, 6.25e-4, 6.25e-4, 6.25e-5, 6.25e-5, 6.25e-5]
    assert rates == pytest.approx(wanted)
    assert [told_of.split("multiplied by ")[1].split()[0] for told_of in messages(told)] == ["0.5", "0.25", "0.5"]
    assert then[-1]["scheduler"]["base_lrs"] == pytest.approx([0.00625])


def test_a_run_that_fails_again_goes_one_snapshot_further_back_and_stops_at_the_limit():
    library = lightning.pytorch
    before, good = recorder(library, "on_train_batch_end", all_of)
    after, then = recorder(library, "on_train_batch_end", all_of)
    module = make_module(library, nan_at=[4, 5, 6])
    back = RollbackOnNaN(every_n_steps=1, max_rollbacks=2, keep=3)
    trainer = trainer_of(library, [before, back, after], max_epochs=5)
    with pytest.warns(RollbackWarning, match="the loss is nan at step") as told:
        trainer.fit(module, data())
    words = [
        "(1 of at most 2 times)",
        "(2 of at most 2 times)",
        "it went back 2 times, as often as `max_rollbacks`",
    ]
    assert [word in each for word, each in zip(words, messages(told), strict=True)] == [True] * 3
    assert [same(state, good[step]) for state, step in zip(then[3:], [2, 1, 0], strict=True)] == [True] * 3
    assert same(state_of(model=module)["model"], good[0]["model"])
    assert trainer.global_step == 6


def test_weights_that_are_not_finite_are_never_kept():
    """The loss is finite, its gradient is not: the step spoils the weights, the next loss tells too late."""
    library = lightning.pytorch
    module = make_module(library, nan_at=[3], spoilt=lambda loss, m: loss + (m.layers[0].weight * 0).sqrt().sum())
    before, good = recorder(library, "on_train_batch_end", all_of)
    back = RollbackOnNaN(every_n_steps=1)
    with pytest.warns(RollbackWarning, match="the weights are not finite at step 3: .* after step 2"):
        trainer_of(library, [before, back]).fit(module, data())
    assert bool(good[2]["model"]["layers.0.weight"].isnan().any())
    for each in back.history:
        assert bool(each.state_dict("model")["layers.0.weight"].isfinite().all())


def test_a_loss_above_the_threshold_counts_as_nan():
    library = lightning.pytorch
    before, good = recorder(library, "on_train_batch_end", all_of)
    module = make_module(library, nan_at=[3], spoilt=lambda loss, _: loss * 1e6)
    back = RollbackOnNaN(every_n_steps=1, divergence_threshold=100.0)
    with pytest.warns(RollbackWarning, match=r"the loss, .*e\+0\d, is above 100 at step 3"):
        trainer_of(library, [before, back], max_steps=3).fit(module, data())
    assert same(state_of(model=module)["model"], good[1]["model"])


def test_accumulated_gradients_of_a_bad_batch_go_too():
    library = lightning.pytorch
    after, then = recorder(library, "on_train_batch_end", all_of)
    module = make_module(library, nan_at=[5])  # the first batch of the third step
    back = RollbackOnNaN(every_n_steps=1)
    with pytest.warns(RollbackWarning, match="the loss is nan at step 2: .* after step 2"):
        trainer_of(library, [back, after], accumulate_grad_batches=2).fit(module, data())
    assert [each.labels["step"] for each in back.history] == [2, 3]
    assert same(then[4], then[3])
    assert not same(then[5]["model"], then[4]["model"])
    assert bool(then[5]["model"]["layers.0.weight"].isfinite().all())


def test_the_scaler_of_mixed_precision_goes_back_too():
    library = lightning.pytorch
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    plugin = library.plugins.MixedPrecision("16-mixed", device="cpu", scaler=scaler)

    def with_scaler(trainer, module):
        return {"scaler": scaler, "model": module}

    before, good = recorder(library, "on_train_batch_end", with_scaler)
    after, then = recorder(library, "on_train_batch_end", with_scaler)
    module = make_module(library, nan_at=[4])
    module.configure_optimizers = lambda: torch.optim.SGD(module.parameters(), lr=0.1)
    back = RollbackOnNaN(every_n_steps=3)
    with pytest.warns(RollbackWarning, match="the loss is nan at step 4"):
        trainer_of(library, [before, back, after], plugins=[plugin]).fit(module, data())
    assert same(then[3], good[2])
    assert good[2]["scaler"]["scale"] != good[3]["scaler"]["scale"]


class TwoOptimizers(lightning.pytorch.LightningModule):
    """Manual optimization."""

    def __init__(self, returns_loss):
        super().__init__()
        self.automatic_optimization = False
        self.one, self.other = nn.Linear(4, 2), nn.Linear(4, 2)
        self.returns_loss = returns_loss

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        for layer, optimizer in zip((self.one, self.other), self.optimizers(), strict=True):
            loss = nn.functional.cross_entropy(layer(inputs), targets) * (math.nan if batch_idx == 3 else 1)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        self.log("both", loss)
        return loss if self.returns_loss else None

    def configure_optimizers(self):
        return torch.optim.Adam(self.one.parameters()), torch.optim.SGD(self.other.parameters(), 0.1, momentum=0.9)


@pytest.mark.parametrize("monitor", [None, "both"])
def test_several_optimizers_go_back_together(monitor):
    library = lightning.pytorch

    def both(trainer, module):
        return {"model": module, "optimizer_0": trainer.optimizers[0], "optimizer_1": trainer.optimizers[1]}

    before, good = recorder(library, "on_train_batch_end", both)
    after, then = recorder(library, "on_train_batch_end", both)
    module = TwoOptimizers(returns_loss=monitor is None)
    back = RollbackOnNaN(monitor=monitor, every_n_steps=1)
    with pytest.warns(RollbackWarning, match="the loss is nan at step 8: .* after step 6"):
        trainer_of(library, [before, back, after]).fit(module, data())
    assert back.history[0].parts == ("model", "optimizer_0", "optimizer_1")
    assert same(then[3], good[2])
    assert not same(then[5]["model"], then[3]["model"])


def test_where_there_is_no_loss_to_look_at_is_an_error():
    with pytest.raises(InputError, match="the training step returned no loss"):
        trainer_of(lightning.pytorch, [RollbackOnNaN()]).fit(TwoOptimizers(returns_loss=False), data())
    with pytest.raises(InputError, match=r"monitor='los'\): the training step logged no such metric, but 'both'"):
        trainer_of(lightning.pytorch, [RollbackOnNaN(monitor="los")]).fit(TwoOptimizers(returns_loss=True), data())


def test_the_count_of_rollbacks_goes_on_after_a_checkpoint(tmp_path):
    library = lightning.pytorch
    trainer = trainer_of(library, [RollbackOnNaN(every_n_steps=1)])
    with pytest.warns(RollbackWarning, match="1 of at most 3 times"):
        trainer.fit(make_module(library, nan_at=[2]), data())
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    back = RollbackOnNaN(every_n_steps=1)
    trainer = trainer_of(library, [back], max_epochs=2)
    with pytest.warns(RollbackWarning, match="2 of at most 3 times"):
        trainer.fit(make_module(library, nan_at=[2]), data(), ckpt_path=tmp_path / "last.ckpt")
    with pytest.warns(RollbackWarning, match="1 of at most 3 times"):
        trainer_of(library, [back]).fit(make_module(library, nan_at=[2]), data())


def test_the_callbacks_are_those_of_the_package_that_the_program_uses(monkeypatch):
    assert isinstance(BestWeights("x"), (lightning.pytorch.Callback, pytorch_lightning.Callback))
    monkeypatch.delitem(sys.modules, "lightning.pytorch")
    monkeypatch.delitem(sys.modules, "torchcopy.integrations.lightning")
    anew = importlib.import_module("torchcopy.integrations.lightning")
    assert isinstance(anew.RollbackOnNaN(), pytorch_lightning.Callback)
    assert not isinstance(anew.BestWeights("x"), lightning.pytorch.Callback)


def test_without_lightning_the_error_says_what_to_install(monkeypatch):
    for name in ("lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "torchcopy.integrations.lightning")
    with pytest.raises(ModuleNotFoundError, match="needs Lightning: pip install lightning"):
        importlib.import_module("torchcopy.integrations.lightning")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BestWeights("x", mode="least"), r"`keep_best\['x'\]` must be 'min' or 'max'; got 'least'"),
        (lambda: BestWeights("x", keep=-1), "`keep` must be a number of snapshots from 0 on; got -1"),
        (lambda: BestWeights("x", snapshot_mode="fast"), "`mode` must be one of 'eager', 'lazy', 'background'"),
        (lambda: RollbackOnNaN(every_n_steps=0), "`every_n_steps` must be a whole number from 1 on; got 0"),
        (lambda: RollbackOnNaN(max_rollbacks=-1), "`max_rollbacks` must be a whole number from 0 on; got -1"),
        (lambda: RollbackOnNaN(lr_factor=0.0), "`lr_factor` must be a positive number, 1 for no change; got 0.0"),
    ],
    ids=["mode", "keep", "snapshot mode", "every_n_steps", "max_rollbacks", "lr_factor"],
)
def test_wrong_options_are_refused_at_once(make, message):
    with pytest.raises(InputError, match=message):
        make()
