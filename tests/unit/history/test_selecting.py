"""Which snapshot of a history a text means."""

import math

import pytest
import torch

import torchcopy as tc
from torchcopy.history.selecting import select

LABELS = [
    {"step": 0, "val_loss": 0.9, "acc": 0.1, "note": "warm-up"},
    {"step": 100, "val_loss": 0.2, "acc": 0.5, "note": "a:b=c,d"},
    {"step": 200, "val_loss": math.nan, "acc": 0.4, "done": False, "lr": 1e-3},
    {"step": 200, "val_loss": 0.4, "acc": 0.6, "done": True, "extra": None},
]


@pytest.fixture
def history():
    made = tc.History(w=torch.zeros(1), rng=False, keep=3, keep_best={"val_loss": "min"})
    for labels in LABELS:
        made.take(**labels)
    return made


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("-1", 3),
        ("-3", 1),
        ("1", 1),
        ("3", 3),
        ("step=100", 1),
        ("step=1e2", 1),
        ("step=200", 3),
        ("step=200,done=false", 2),
        ("done=True", 3),
        ("extra=none", 3),
        ("lr=0.001", 2),
        ("val_loss=nan", 2),
        ("note=a:b=c,d", 1),
        ("best=val_loss", 1),
        ("min=acc", 2),
        ("max=acc", 3),
        ("max=val_loss", 3),
    ],
)
def test_the_snapshot_that_is_meant(history, text, number):
    assert select(history, text, "runs/h").number == number


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-4", "'runs/h' has 3 snapshots: there is none at -4"),
        ("0", "no snapshot with number 0: there are 1, 2, 3"),
        ("step=101", "no snapshot of 'runs/h' has step=101: there are step=100, step=200"),
        ("step=x", "has step=x: there are step=100"),
        ("stap=100", "has stap=100: its labels are acc, done"),
        ("best=acc", "was not told what the best acc is: say `min=acc` or `max=acc`"),
        ("best=loss", "has a number for 'loss': there are 'acc'"),
        ("min=note", "has a number for 'note'"),
        ("newest", "'newest' selects no snapshot of 'runs/h': `-1` for the newest"),
        ("", "'' selects no snapshot"),
        ("=3", "'=3' selects no snapshot"),
        ("9" * 30, "selects no snapshot"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(history, text, message):
    with pytest.raises(tc.InputError) as caught:
        select(history, text, "runs/h")
    assert message in str(caught.value)


def test_many_labels_are_not_all_listed():
    history = tc.History(w=torch.zeros(1), rng=False, keep=None)
    for step in range(100):
        history.take(step=step)
    with pytest.raises(tc.InputError, match=r"step=5, …, step=94, step=95") as caught:
        select(history, "step=100", "h")
    assert "step=50" not in str(caught.value)


def test_a_label_may_be_called_best():
    history = tc.History(w=torch.zeros(1), rng=False)
    history.take(best="a")
    history.take(best="b")
    assert select(history, "best=a", "h").number == 0


def test_an_empty_history():
    with pytest.raises(tc.InputError, match="'h' has no snapshots"):
        select(tc.History(w=torch.zeros(1)), "-1", "h")
