"""The plan of a bench, on a clock that only the calls move."""

import dataclasses
import gc
import warnings
import weakref

import pytest
import torch

from torchcopy.bench import runner
from torchcopy.bench.cases import Case, Method, spread_out
from torchcopy.bench.runner import STEPS, run_cases

CPU = torch.device("cpu")


class Clock:
    """Time that passes only when a call says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()

    def sample(call, *, number, blocks, after_block=None):
        times = []
        for _ in range(blocks):
            begun = clock.now
            for _ in range(number):
                call()
            times.append(max((clock.now - begun) / number, 1e-9))
            if after_block is not None:
                after_block()
        return times

    monkeypatch.setattr(runner, "sample_times", sample)
    monkeypatch.setattr(
        runner, "calls_per_block", lambda call, *, block_seconds, once: max(1, round(block_seconds / once))
    )
    return clock


def case(clock, numel, *, build_seconds=0.0, look=lambda subject, result: (True, "own")):
    def build():
        clock.now += build_seconds
        return numel

    def limit(subject):
        return lambda: advance(clock, subject * 1e-6)

    return Case("no_grad", numel, 4 * numel, 1, build, limit, look)


def test_a_case_is_settled_after_each_look_and_each_visit(clock):
    settled = []
    one = dataclasses.replace(case(clock, 100), settle=settled.append)

    def fails(_subject):
        raise ValueError

    methods = [Method("ok", "ok", lambda subject: lambda: advance(clock, 1e-6)), Method("bad", "bad", fails)]
    run_cases([one], methods, device=CPU, max_seconds=1, clock=clock)
    assert settled == [100] * (2 + 3)  # the look at both, and the visits to the one that works


def advance(clock, seconds):
    clock.now += seconds
    return object()


def method(clock, name, seconds_per_element=1e-6, fixed=0.0):
    def prepare(subject):
        return lambda: advance(clock, fixed + subject * seconds_per_element)

    return Method(name, f"{name}(t)", prepare)


def run(clock, cases, methods, max_seconds, **options):
    return run_cases(cases, methods, device=CPU, max_seconds=max_seconds, clock=clock, **options)


def test_times_and_limits_are_what_the_calls_took(clock):
    methods = [method(clock, "a", 2e-6), method(clock, "b", 8e-6)]
    outcome = run(clock, [case(clock, 100), case(clock, 1000)], methods, 60)
    times = {(m.method, m.numel): m.timing.median_seconds for m in outcome.measurements}
    assert times == pytest.approx({("a", 100): 2e-4, ("b", 100): 8e-4, ("a", 1000): 2e-3, ("b", 1000): 8e-3})
    assert [limit.timing.median_seconds for limit in outcome.limits] == pytest.approx([1e-4, 1e-3])
    assert outcome.measurements[1].ratio_to_best == pytest.approx(4.0)
    assert outcome.measurements[1].ratio_to_limit == pytest.approx(0.125)
    assert all(m.timing.runs >= 5 for m in outcome.measurements)


@pytest.mark.parametrize("max_seconds", [0.5, 2, 10, 60])
def test_the_time_holds_and_a_cut_leaves_every_method_some_sizes(clock, max_seconds):
    sizes = [2**k for k in range(0, 27, 2)]
    methods = [method(clock, f"m{index}", 2e-8, fixed=1e-6) for index in range(20)]
    cases = [case(clock, numel, build_seconds=numel * 1e-9) for numel in sizes]
    outcome = run(clock, cases, methods, max_seconds)
    assert outcome.seconds <= 1.1 * max_seconds
    assert outcome.seconds == pytest.approx(clock.now - 100.0)
    timed = {
        name.id: {m.numel for m in outcome.measurements if m.method == name.id and m.timing} for name in methods
    }
    assert all(len(numels) >= 3 for numels in timed.values())
    assert len({frozenset(numels) for numels in timed.values()}) <= 2
    for m in outcome.measurements:
        assert (m.timing is None) == (m.skipped is not None)


def test_more_time_leaves_less_out(clock):
    sizes = [2**k for k in range(0, 27, 2)]

    def left_out(max_seconds):
        cases = [case(clock, numel) for numel in sizes]
        outcome = run(clock, cases, [method(clock, "a", 2e-8, fixed=1e-6)], max_seconds)
        return sum(m.skipped is not None for m in outcome.measurements)

    assert left_out(0.5) > left_out(5) > left_out(600) == 0


def test_one_large_case_is_timed_as_far_as_it_goes(clock):
    methods = [method(clock, "a", 1e-3), method(clock, "b", 1e-3), method(clock, "c", 30e-3)]
    outcome = run(clock, [case(clock, 100)], methods, 5)
    a, b, c = outcome.measurements
    assert [m.timing is not None for m in (a, b, c)] == [True, True, False]
    assert "were left of 5 s" in c.skipped or "so much of 5 s" in c.skipped


def test_what_raises_is_shown_and_the_rest_goes_on(clock):
    def raises(subject):
        def call():
            raise RuntimeError("only leaves\nand a second line")

        return call

    def cannot(subject):
        raise TypeError("it needs more")

    methods = [Method("a", "a", raises), Method("b", "b", cannot), method(clock, "c")]
    a, b, c = run(clock, [case(clock, 10)], methods, 1).measurements
    assert (a.error, a.timing, a.memory) == ("RuntimeError: only leaves", None, None)
    assert b.error == "TypeError: it needs more"
    assert c.ratio_to_best == 1.0


def test_what_raises_later_is_shown_too(clock):
    calls = []

    def prepare(subject):
        def call():
            calls.append(1)
            if len(calls) > 4:
                raise RuntimeError("tired")
            return advance(clock, 0.1)

        return call

    (m,) = run(clock, [case(clock, 10)], [Method("a", "a", prepare)], 10).measurements
    assert (m.error, m.timing) == ("RuntimeError: tired", None)


def test_a_source_that_cannot_be_built_is_left_out(clock):
    def build():
        raise RuntimeError("not enough memory")

    broken = Case("no_grad", 10**6, 4, 1, build, lambda subject: None, lambda subject, result: (True, "own"))
    good, bad = run(clock, [case(clock, 10), broken], [method(clock, "a")], 10).measurements
    assert good.timing is not None
    assert bad.skipped == "it could not be built: RuntimeError: not enough memory"


def test_a_result_that_is_no_copy_of_any_kind_is_an_error(clock):
    def look(subject, result):
        raise TypeError("it returned object, not a tensor")

    (m,) = run(clock, [case(clock, 10, look=look)], [method(clock, "a")], 1).measurements
    assert m.error == "TypeError: it returned object, not a tensor"


def test_warnings_are_kept_and_do_not_reach_the_caller(clock):
    def prepare(subject):
        def call():
            warnings.warn("mind the gap", stacklevel=2)
            return advance(clock, 1e-3)

        return call

    (m,) = run(clock, [case(clock, 10)], [Method("a", "a", prepare)], 1).measurements  # warnings are errors here
    assert m.warnings == ("UserWarning: mind the gap",)


def test_every_step_is_announced(clock):
    steps = []
    cases = [case(clock, numel) for numel in (1, 10, 10**9)]
    methods = [method(clock, "a"), method(clock, "b")]
    run(clock, cases, methods, 1, on_step=steps.append)
    assert len(steps) == STEPS * len(cases) * len(methods)


class Result:
    """A copy that says when it dies."""

    alive = 0

    def __init__(self, cyclic):
        self.me = self if cyclic else None
        type(self).alive += 1
        weakref.finalize(self, self._die)

    @classmethod
    def _die(cls):
        cls.alive -= 1


@pytest.mark.parametrize("cyclic", [False, True])
def test_a_result_is_freed_before_the_next_call(clock, cyclic):
    most = []

    def prepare(subject):
        def call():
            most.append(Result.alive)
            clock.now += 0.03
            return Result(cyclic)

        return call

    gc.collect()
    gc.disable()  # only what the bench collects itself counts
    try:
        (m,) = run(clock, [case(clock, 10)], [Method("a", "a", prepare)], 10).measurements
    finally:
        gc.enable()
    assert m.timing is not None
    # A cycle outlives the look's two calls, until the first collection between the timed ones.
    assert max(most) <= (2 if cyclic else 0)
    gc.collect()


def test_what_a_method_writes_into_is_not_taken_for_a_cycle(clock):
    target, collections = Result(cyclic=False), []

    def prepare(subject):
        def call():
            clock.now += 0.03
            return target

        return call

    def count(phase, info):
        if phase == "stop" and info["generation"] == 2:
            collections.append(info)

    gc.disable()  # only what the bench collects itself counts
    gc.callbacks.append(count)
    try:
        (m,) = run(clock, [case(clock, 10)], [Method("a", "a", prepare)], 10).measurements
    finally:
        gc.callbacks.remove(count)
        gc.enable()
    assert m.timing is not None
    assert len(collections) == 1  # the one that told


def test_time_spent_before_counts(clock):
    outcome = run(clock, [case(clock, 10)], [method(clock, "a", 1e-2)], 10, started=clock.now - 9.9)
    assert outcome.measurements[0].timing is None
    assert "10 s" in outcome.measurements[0].skipped


def test_grad_mode_of_the_caller_does_not_matter(clock):
    seen = []

    def prepare(subject):
        def call():
            seen.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
            return advance(clock, 1e-3)

        return call

    with torch.inference_mode():
        run(clock, [case(clock, 10)], [Method("a", "a", prepare)], 1)
    assert set(seen) == {(True, False)}


def test_sizes_are_spread_out():
    clock = Clock()
    cases = [case(clock, numel) for numel in (4, 1, 16, 2, 8)]
    assert [cases[c].numel for c in spread_out(cases)] == [1, 16, 4, 2, 8]
    assert spread_out(cases[:1]) == [0]
