"""The examples of the history, run whole: what they print is what they found."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def printed(capsys):
    """Runs an example and returns what it printed."""

    def run(name):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return run


def numbers(pattern, text):
    """The groups of each match, as numbers."""
    return [tuple(map(float, found.groups())) for found in re.finditer(pattern, text)]


def test_the_best_weights_are_better_than_the_last_and_the_mistake_is_the_last(printed):
    out = printed("best_weights")
    ((best_loss, best_epoch), (last_loss, last_epoch)) = numbers(r"([\d.]+) after epoch (\d+)", out)
    assert best_loss < last_loss
    assert best_epoch < last_epoch == 60
    (last,), (mistake,), (best,) = numbers(r"([\d.]+)%  ", out)
    assert mistake == last < best
    assert "holds 2 snapshots" in out


def test_the_rollback_saves_the_training(printed):
    out = printed("rollback")
    ((step, loss, back, before, rate),) = numbers(
        r"step (\d+): the loss is ([\d.e+]+)\. Back to step (\d+), "
        r"where it was ([\d.]+); the learning rate is ([\d.]+)",
        out,
    )
    assert back <= 155 < step
    assert before < 1 < loss
    assert rate == pytest.approx(0.025)
    (saved,), (ruined,) = numbers(r"([\d.]+)%  ", out)
    assert saved > 90 > 50 > ruined


def test_the_average_and_the_vote_gain_what_is_said(printed):
    right, wrong = printed("checkpoint_averaging").split("All labels right")[1].split("A fifth")
    for text in (right, wrong):
        (last,) = numbers(r"([\d.]+)%  the last", text)[0]
        gains = numbers(r"([\d.]+)%  .*: ([+-][\d.]+) ± ([\d.]+)", text)
        assert len(gains) == 2
        for accuracy, gain, _ in gains:
            assert accuracy - last == pytest.approx(gain, abs=0.11)
    assert all(gain > 2 * error > 0 for _, gain, error in gains)  # with wrong labels


def test_what_moved_is_what_was_trained(printed):
    out = printed("training_progress")
    epochs = numbers(r"(?m)^ +(\d+) +([\d.]+)% +([\d.]+)% +([\d.]+)%$", out)
    assert [each[0] for each in epochs] == list(range(1, 13))
    assert {each[1] for each in epochs} == {0.0}
    assert min(min(each[2:]) for each in epochs) > 0
    assert "4 of 6 tensors moved" in out
    ((count, size, held),) = numbers(r"(\d+) snapshots of (\d+) kB hold (\d+) kB", out)
    assert held < 0.6 * count * size
