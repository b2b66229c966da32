import dataclasses
import json

import pytest

from torchcopy._errors import InputError
from torchcopy.bench.compare import check_comparable, compare, load_report
from torchcopy.bench.records import BenchReport, Limit, Measurement
from torchcopy.semantics.machine import describe_machine
from torchcopy.semantics.timing import Timing

SIZES = (1, 1000)


def timing(median, spread=0.02):
    return Timing(median, median * (1 - spread), median * (1 + spread), 12)


def report(times, *, limit=1.0, spread=0.02, machine=None, memory="own", **fields):
    """A report of one time for each method, the same at both sizes."""
    measurements = tuple(
        Measurement(
            method,
            method,
            "no_grad",
            numel,
            4 * numel,
            memory=None if seconds is None else memory,
            timing=None if seconds is None else timing(seconds, spread),
            error="RuntimeError: no" if seconds is None else None,
        )
        for method, seconds in times.items()
        for numel in SIZES
    )
    limits = [Limit("no_grad", numel, 4 * numel, timing(limit if numel > 1 else 1.0)) for numel in SIZES]
    plain = {
        "kind": "tensors",
        "subject": "tensors",
        "machine": machine or describe_machine(),
        "device": "cpu",
        "dtype": "float32",
        "sources": ("no_grad",),
        "sizes": SIZES,
        "methods": tuple(times),
        "limits": tuple(limits),
        "measurements": measurements,
        "max_seconds": 1.0,
        "seconds": 1.0,
    }
    return BenchReport(**{**plain, **fields})


def verdicts(comparison, numel=1000):
    return {change.method: change.verdict for change in comparison.changes if change.numel == numel}


OTHER_MACHINE = dataclasses.replace(describe_machine(), cpu="another")


def test_slower_faster_and_the_same():
    old = report({"a": 2.0, "b": 2.0, "c": 2.0})
    new = report({"a": 3.0, "b": 1.5, "c": 2.1})
    comparison = compare(old, new)
    assert verdicts(comparison) == {"a": "slower", "b": "faster", "c": "same"}
    assert {change.method for change in comparison.slower} == {"a"}
    assert comparison.changes[0].ratio == pytest.approx(1.5)
    assert comparison.to_dict()["slower"] == 2  # at both sizes


def test_a_wide_spread_is_noise():
    old, new = report({"a": 2.0}, spread=0.3), report({"a": 3.0}, spread=0.3)
    assert verdicts(compare(old, new)) == {"a": "same"}


def test_what_the_limit_is_unsure_of_is_noise():
    old = report({"a": 2.0})
    unsure = tuple(dataclasses.replace(limit, timing=timing(1.0, 0.6)) for limit in old.limits)
    new = dataclasses.replace(report({"a": 3.0}), limits=unsure)
    assert verdicts(compare(old, new)) == {"a": "same"}


def test_a_slower_machine_is_not_a_finding():
    old = report({"a": 2.0}, limit=1.0)
    new = report({"a": 4.0}, limit=2.0, machine=OTHER_MACHINE)
    assert verdicts(compare(old, new)) == {"a": "same"}
    assert not compare(old, new).same_machine


def test_on_another_machine_the_distance_to_the_limit_counts():
    old = report({"a": 2.0}, limit=1.0)
    new = report({"a": 2.0}, limit=0.5, machine=OTHER_MACHINE)
    assert verdicts(compare(old, new)) == {"a": "slower"}


def test_on_the_same_machine_the_plain_time_has_to_agree():
    old, new = report({"a": 2.0}, limit=1.0), report({"a": 2.0}, limit=0.5)
    assert verdicts(compare(old, new)) == {"a": "same"}


def test_what_is_no_copy_is_measured_by_the_price_of_a_call():
    # The memory got twice as fast at the large size; a view does not touch it.
    old = report({"view": 2.0}, limit=1.0, memory="share")
    new = report({"view": 2.0}, limit=0.5, memory="share", machine=OTHER_MACHINE)
    assert verdicts(compare(old, new)) == {"view": "same"}
    slower = report({"view": 4.0}, limit=0.5, memory="share", machine=OTHER_MACHINE)
    assert verdicts(compare(old, slower)) == {"view": "slower"}


def test_new_gone_and_raising():
    old = report({"a": 2.0, "b": 2.0, "gone": 2.0, "never": None})
    new = report({"a": 2.0, "b": None, "new": 2.0, "never": None})
    comparison = compare(old, new)
    assert verdicts(comparison) == {"a": "same", "b": "raises", "gone": "gone", "new": "new", "never": "same"}
    assert {change.method for change in comparison.slower} == {"b"}


def test_what_was_left_out_this_time_is_not_slower():
    old = report({"a": 2.0})
    left_out = tuple(dataclasses.replace(m, timing=None, skipped="no time") for m in old.measurements)
    change = compare(old, dataclasses.replace(old, measurements=left_out)).changes[0]
    assert (change.verdict, change.note) == ("gone", "no time")
    back = compare(dataclasses.replace(old, measurements=left_out), old)
    assert verdicts(back) == {"a": "new"}


def test_without_a_limit_nothing_is_judged():
    old, new = report({"a": 2.0}), dataclasses.replace(report({"a": 9.0}), limits=())
    assert verdicts(compare(old, new)) == {"a": "same"}
    assert "not judged" in compare(old, new).changes[0].note


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "model"}, "measured a model bench, this is a tensors bench"),
        ({"device": "cuda:0"}, "measure with `--device cuda:0`"),
        ({"dtype": "int8"}, "measure with `--dtype int8`"),
        ({"measurements": ()}, "no method, source and size in common"),
    ],
)
def test_like_is_compared_with_like(change, message):
    new = report({"a": 2.0})
    with pytest.raises(InputError, match=message):
        compare(dataclasses.replace(new, **change), new)


def test_two_models_are_not_compared():
    old = report({"a": 2.0}, kind="model", subject="one")
    with pytest.raises(InputError, match="measured model 'one', this bench 'two'"):
        check_comparable(old, kind="model", subject="two", device="cpu", dtype="float32")


def test_loading(tmp_path):
    old = report({"a": 2.0})
    (tmp_path / "old.json").write_text(json.dumps(old.to_dict()))
    assert load_report(tmp_path / "old.json") == old


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "not a result of"),
        (b"", "is not JSON"),
    ],
    ids=["missing", "half", "bytes", "deep", "list", "empty"],
)
def test_other_files_are_refused(tmp_path, content, message):
    path = tmp_path / "old.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_report(path)
