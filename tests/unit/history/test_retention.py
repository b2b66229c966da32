"""Which snapshots stay, what they hold, and what is told of it."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import torchcopy as tc
from bitwise import bits, differences

pytestmark = pytest.mark.usefixtures("one_thread")
KB = 1024


class Holder(nn.Module):
    """Parameters of as many bytes as are said."""

    def __init__(self, *sizes):
        super().__init__()
        self.parts = nn.ParameterList([nn.Parameter(torch.zeros(size // 4)) for size in sizes])

    def write(self, *numbers):
        with torch.no_grad():
            for k in numbers:
                self.parts[k].add_(1)


def history_of(*sizes, **options):
    model = Holder(*sizes)
    return model, tc.History(model=model, rng=False, **options)


def numbers(history):
    return [snapshot.number for snapshot in history]


# --- the newest, and the best ------------------------------------------------------------------------------------


def test_the_newest_are_kept():
    _, history = history_of(KB, keep=3)
    for step in range(6):
        assert history.take(step=step) is history[-1]
    assert len(history) == 3
    assert [snapshot.labels["step"] for snapshot in history] == [3, 4, 5]
    assert numbers(history) == [3, 4, 5]
    assert [s.number for s in history[1:]] == [4, 5]
    assert history[0] is history.at(step=3)
    assert history[-3] is history[0]
    with pytest.raises(IndexError, match="there is no snapshot 3: the history has 3"):
        history[3]


def test_all_are_kept():
    _, history = history_of(KB, keep=None)
    for _ in range(30):
        history.take()
    assert numbers(history) == list(range(30))


def test_the_best_is_kept_until_there_is_a_better_one():
    _, history = history_of(KB, keep=1, keep_best={"loss": "min"})
    seen = []
    for loss in (3.0, 1.0, 2.0, 5.0, 0.5, 4.0):
        history.take(loss=loss)
        seen.append((numbers(history), history.best("loss").number))
    assert seen == [([0], 0), ([1], 1), ([1, 2], 1), ([1, 3], 1), ([4], 4), ([4, 5], 4)]


def test_the_best_is_restored_as_it_was():
    model, history = history_of(KB, keep=2, keep_best={"loss": "min"})
    wanted = None
    for loss in (3.0, 1.0, 2.0, 5.0, 4.0):
        model.write(0)
        history.take(loss=loss)
        if loss == 1.0:
            wanted = bits(model.state_dict())
    history.best("loss").restore()
    assert differences(bits(model.state_dict()), wanted) == []


def test_of_equal_ones_the_first_is_the_best():
    _, history = history_of(KB, keep=1, keep_best={"loss": "min", "accuracy": "max"})
    for _ in range(4):
        history.take(loss=1.0, accuracy=0.5)
    assert numbers(history) == [0, 3]
    assert history.best("loss") is history[0]
    assert history.best("accuracy") is history[0]


def test_what_is_no_number_is_never_the_best():
    _, history = history_of(KB, keep=1, keep_best={"loss": "min"})
    for loss in (math.nan, None, "low", True, math.inf):
        history.take(loss=loss)
    assert numbers(history) == [4]
    assert history.best("loss").labels["loss"] == math.inf
    history.take(loss=math.nan)
    history.take()
    assert numbers(history) == [4, 6]
    assert history.best("loss").number == 4
    history.take(loss=-math.inf)
    assert numbers(history) == [7]


def test_by_each_metric_the_best_is_kept():
    _, history = history_of(KB, keep=2, keep_best={"loss": "min", "accuracy": "max"})
    for loss, accuracy in ((1, 0.1), (2, 0.9), (3, 0.5), (4, 0.4), (5, 0.3)):
        history.take(loss=loss, accuracy=accuracy)
    assert numbers(history) == [0, 1, 3, 4]
    assert history.best("loss").number == 0
    assert history.best("accuracy").number == 1
    assert history.best("loss", "max").number == 4
    assert [each.best for each in history.report().snapshots] == [("loss",), ("accuracy",), (), ()]


@settings(max_examples=200, deadline=None)
@given(
    keep=st.integers(1, 4),
    metrics=st.lists(
        st.tuples(st.sampled_from([1.0, 2.0, 3.0, math.nan, None]), st.sampled_from([1, 2, math.inf])), max_size=12
    ),
)
def test_any_run_keeps_the_newest_and_the_best_of_all(keep, metrics):
    _, history = history_of(8, keep=keep, keep_best={"loss": "min", "score": "max"})
    for count, (loss, score) in enumerate(metrics, 1):
        history.take(loss=loss, score=score)
        losses = [(m[0], k) for k, m in enumerate(metrics[:count]) if m[0] is not None and not math.isnan(m[0])]
        scores = [(-m[1], k) for k, m in enumerate(metrics[:count])]
        wanted = {*range(max(count - keep, 0), count), *([min(losses)[1]] if losses else []), min(scores)[1]}
        assert numbers(history) == sorted(wanted)


def test_metrics_may_be_tensors_and_arrays():
    _, history = history_of(KB, keep_best={"loss": "min"})
    history.take(loss=torch.tensor([[0.5]]), step=torch.tensor(3), ok=torch.tensor(True))
    assert history[0].labels == {"loss": 0.5, "step": 3, "ok": True}
    assert type(history[0].labels["step"]) is int
    assert history[0].metrics == {"loss": 0.5, "step": 3.0}


def test_snapshots_are_taken_out():
    _, history = history_of(KB)
    first, second = history.take(), history.take()
    history.remove(first)
    assert list(history) == [second]
    with pytest.raises(tc.InputError, match=r"<Snapshot 0: model> is not in this history"):
        history.remove(first)
    history.clear()
    assert len(history) == 0
    assert history.nbytes == 0
    first.restore()
    assert history.take().number == 2


def test_a_history_does_not_change_while_it_is_gone_through():
    _, history = history_of(KB, keep=2)
    history.take()
    history.take()
    seen = []
    for snapshot in history:
        seen.append(snapshot.number)
        history.take()
    assert seen == [0, 1]
    assert numbers(history) == [2, 3]


# --- bytes -----------------------------------------------------------------------------------------------------


def test_eager_snapshots_hold_what_they_copied():
    model, history = history_of(4 * KB, 8 * KB, keep=3)
    for k in range(5):
        history.take()
        assert history.nbytes == min(k + 1, 3) * 12 * KB
        assert [each.nbytes for each in history.report().snapshots] == [12 * KB] * min(k + 1, 3)
    model.write(0, 1)
    assert history.nbytes == 36 * KB


def test_tied_tensors_count_once():
    model = Holder(4 * KB)
    model.parts.append(model.parts[0])
    views = {"all": (flat := torch.zeros(2 * KB // 4)), "half": flat[: KB // 4]}
    history = tc.History(model=model, same=model, views=views, rng=False)
    history.take()
    assert history.nbytes == 6 * KB


def test_lazy_snapshots_hold_what_was_written_since():
    model, history = history_of(4 * KB, 8 * KB, mode="lazy")
    history.take()
    assert history.nbytes == 0
    assert [each.nbytes for each in history.report().snapshots] == [0]
    model.write(0)
    assert history.nbytes == 4 * KB
    history.take()
    history.take()
    assert history.nbytes == 4 * KB
    model.write(1)
    assert history.nbytes == 12 * KB  # the second part is shared by all three
    assert [each.nbytes for each in history.report().snapshots] == [4 * KB, 0, 0]
    model.write(0, 1)
    assert history.nbytes == 16 * KB
    history.remove(history[0])
    assert history.nbytes == 12 * KB
    history[0].restore()
    assert history.nbytes <= 12 * KB


def test_background_snapshots_hold_what_was_moved():
    model, history = history_of(4 * KB, 8 * KB, mode="background", keep=2)
    for k in range(4):
        history.take().wait()
        model.write(0, 1)
        assert history.nbytes == min(k + 1, 2) * 12 * KB
    history.clear()
    assert history.nbytes == 0


def test_bytes_beyond_the_limit_go_the_oldest_first():
    model, history = history_of(4 * KB, keep=None, max_bytes=14 * KB)
    for k in range(6):
        model.write(0)
        history.take()
        assert numbers(history) == list(range(max(k - 2, 0), k + 1))
        assert history.nbytes <= 14 * KB


def test_the_best_go_last_of_all():
    _, history = history_of(4 * KB, keep=None, max_bytes=12 * KB, keep_best={"loss": "min", "accuracy": "max"})
    for loss, accuracy in ((1, 0.1), (2, 0.9), (3, 0.2), (4, 0.3), (5, 0.4)):
        history.take(loss=loss, accuracy=accuracy)
    assert numbers(history) == [0, 1, 4]
    history.max_bytes = 8 * KB
    history.take(loss=6, accuracy=0)
    assert numbers(history) == [1, 5]
    history.max_bytes = 4 * KB
    history.take(loss=7, accuracy=0)
    assert numbers(history) == [6]


def test_the_newest_stays_though_it_is_too_large_and_that_is_told_once():
    _, history = history_of(4 * KB, max_bytes=KB)
    with pytest.warns(
        UserWarning, match=r"the newest snapshot alone holds 4\S* \S+, more than max_bytes=1\S* \S+"
    ) as told:
        history.take()
    assert told[0].filename == __file__
    history.take()
    assert numbers(history) == [1]


def test_lazy_snapshots_are_counted_by_what_they_really_hold():
    """Twenty snapshots of what is not written fit where not two would by themselves."""
    model, history = history_of(4 * KB, 8 * KB, mode="lazy", keep=None, max_bytes=16 * KB)
    for _ in range(20):
        history.take()
    assert len(history) == 20
    for _ in range(3):
        model.write(0)
        history.take()
    assert len(history) == 23
    assert history.nbytes == 12 * KB
    model.write(1)
    history.take()
    assert history.nbytes <= 16 * KB
    assert numbers(history) == [20, 21, 22, 23]


def test_an_evicted_snapshot_gives_its_memory_to_the_next(monkeypatch):
    _, history = history_of(4 * KB, 8 * KB, keep=1)
    history.take()
    memory = {t.data_ptr() for t in history[0]._tensors()}
    for _ in range(3):
        history.take()
        assert {t.data_ptr() for t in history[0]._tensors()} == memory


def test_reports_are_plain_data():
    model, history = history_of(4 * KB, mode="lazy", keep_best={"loss": "min"})
    history.take(step=1, loss=0.5)
    model.write(0)
    history.take(step=2, loss=0.7)
    report = history.report()
    assert report.to_dict() == {
        "mode": "lazy",
        "nbytes": 4 * KB,
        "snapshots": (
            {"number": 0, "labels": {"step": 1, "loss": 0.5}, "best": ("loss",), "nbytes": 4 * KB},
            {"number": 1, "labels": {"step": 2, "loss": 0.7}, "best": (), "nbytes": 0},
        ),
    }
    first, second, third = str(report).splitlines()
    assert first.startswith("2 snapshots (lazy), 4")
    assert second.startswith("  0: step=1 loss=0.5, 4")
    assert second.endswith("of its own  best loss")
    assert third.startswith("  1: step=2 loss=0.7, 0")


# --- frozen parts ----------------------------------------------------------------------------------------------


def test_a_hundred_snapshots_of_a_run_with_one_percent_trainable():
    """They hold one model and a hundred times the percent at most; the optimizer too, where it is a part."""
    model = Holder(*[16 * KB] * 100)
    for p in model.parts[:99]:
        p.requires_grad_(False)
    optimizer = torch.optim.AdamW([model.parts[99]], fused=True)
    alone = tc.History(model=model, mode="lazy", keep=None, rng=False)
    both = tc.History(model=model, optimizer=optimizer, mode="lazy", keep=None, rng=False)
    wanted = []
    for _ in range(100):
        model.parts[99].grad = torch.ones_like(model.parts[99])
        optimizer.step()
        alone.take()
        both.take()
        wanted.append(model.parts[99][0].item())
    one, percent = 1600 * KB, 16 * KB
    assert len(set(wanted)) == 100
    assert alone.nbytes <= one + 100 * percent
    assert alone.nbytes == 99 * percent  # what is frozen is the live model's, and so is the newest
    assert both.nbytes <= one + 100 * (3 * percent + 64)
    for p in model.parts[:99]:
        p.data.add_(1)
    assert alone.nbytes == 99 * percent + 99 * percent
    for snapshot, value in zip(alone, wanted, strict=True):
        state = snapshot.state_dict()
        assert state["parts.99"][0].item() == value
        assert (state["parts.0"] == 0).all()
