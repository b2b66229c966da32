import pytest

from torchcopy.semantics import timing
from torchcopy.semantics.timing import TimeRatio, Timing, quartiles, time_call, time_ratio


def test_quartiles():
    assert quartiles([3.0, 1.0, 2.0, 4.0, 5.0]) == (2.0, 3.0, 4.0)
    assert quartiles([7.0]) == (7.0, 7.0, 7.0)


@pytest.mark.parametrize(
    ("ratio", "limit", "expected"),
    [
        (TimeRatio(0.5, 0.45, 0.55, 9), 1.0, "faster"),
        (TimeRatio(2.0, 1.9, 2.1, 9), 1.0, "slower"),
        (TimeRatio(1.5, 0.9, 2.1, 9), 1.0, "too close to call"),
        (TimeRatio(1.02, 1.01, 1.03, 9), 1.0, "too close to call"),
        (TimeRatio(2.0, 1.9, 2.1, 9), 3.0, "faster"),
        (TimeRatio(3.5, 3.4, 3.6, 9), 3.0, "slower"),
    ],
)
def test_verdict_on_a_ratio(ratio, limit, expected):
    assert ratio.compared_with(limit) == expected


class _FakeTimer:
    """Each call takes as many seconds as `costs` says, whatever the clock of the machine does."""

    def __init__(self, name):
        self.cost, self.calls = {"fast": 0.001, "slow": 0.004}[name], 0

    def timeit(self, number):
        self.calls += number
        return type("Measurement", (), {"median": self.cost, "times": [self.cost], "number_per_run": number})()

    def blocked_autorange(self, min_run_time):
        return self.timeit(max(1, int(min_run_time / self.cost)))


@pytest.fixture
def fake_timers(monkeypatch):
    made = {}

    def build(call):
        made[call()] = timer = _FakeTimer(call())
        return timer

    monkeypatch.setattr(timing, "_timer", build)
    return made


def test_time_call_has_enough_runs_for_a_spread(fake_timers):
    measured = time_call(lambda: "slow", min_seconds=0.1)
    assert measured == Timing(0.004, 0.004, 0.004, 5)


def test_time_ratio_spends_as_long_on_either_side(fake_timers):
    measured = time_ratio(lambda: "slow", lambda: "fast", rounds=11, min_seconds=1.0)
    assert measured.median == pytest.approx(4.0)
    assert measured.rounds == 11
    spent = {name: timer.calls * timer.cost for name, timer in fake_timers.items()}
    assert spent["slow"] == pytest.approx(spent["fast"], rel=0.25)


def test_the_real_timer_counts_real_calls():
    calls = []
    measured = time_call(lambda: calls.append(1), min_seconds=0.001)
    assert measured.runs >= 5
    assert 0 < measured.low_seconds <= measured.median_seconds <= measured.high_seconds
    assert len(calls) > measured.runs
