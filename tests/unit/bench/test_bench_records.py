import dataclasses
import json

import pytest

from torchcopy._errors import InputError
from torchcopy.bench.records import BenchReport, Limit, Measurement, with_ratios
from torchcopy.semantics.allocation import Allocation
from torchcopy.semantics.machine import Gpu, describe_machine
from torchcopy.semantics.timing import Timing


def timing(median):
    return Timing(median, 0.9 * median, 1.1 * median, 12)


def measurement(method="clone", numel=8, **fields):
    return Measurement(method, f"{method}(t)", "no_grad", numel, 4 * numel, **{"memory": "own", **fields})


def report(*measurements, limits=(), **fields):
    machine = dataclasses.replace(describe_machine(), gpus=(Gpu("a gpu", 80, "9.0"),))
    plain = {
        "kind": "tensors",
        "subject": "tensors",
        "machine": machine,
        "device": "cpu",
        "dtype": "float32",
        "sources": ("no_grad",),
        "sizes": (8,),
        "methods": tuple(dict.fromkeys(m.method for m in measurements)),
        "limits": tuple(limits),
        "measurements": measurements,
        "max_seconds": 2.0,
        "seconds": 1.5,
        "others_share": 0.1,
    }
    return BenchReport(**{**plain, **fields})


FULL = report(
    measurement(timing=timing(2.0), allocation=Allocation(4, 3, 2), data_ptr_differs=True, warnings=("W: x",)),
    measurement("detach", memory="share", timing=timing(0.1), data_ptr_differs=False),
    measurement("deepcopy", memory=None, error="RuntimeError: no"),
    measurement("to", memory=None, skipped="no time"),
    limits=[Limit("no_grad", 8, 32, timing(1.0))],
)


def test_a_report_survives_json():
    assert BenchReport.from_dict(json.loads(json.dumps(FULL.to_dict(), allow_nan=False))) == FULL


def test_ratios_are_taken_among_copies_only():
    measured = [
        measurement("fast", timing=timing(2.0)),
        measurement("slow", timing=timing(8.0)),
        measurement("free", timing=timing(0.001), memory="share"),
        measurement("lazy", timing=timing(0.001), memory="lazy"),
        measurement("raises", error="no", memory=None),
        measurement("other size", numel=9, timing=timing(5.0)),
    ]
    filled = with_ratios(measured, [Limit("no_grad", 8, 32, timing(1.0))])
    assert [(m.ratio_to_best, m.ratio_to_limit) for m in filled] == [
        (1.0, 0.5),
        (4.0, 0.125),
        (None, None),
        (None, None),
        (None, None),
        (1.0, None),
    ]


def test_lookups():
    assert FULL.limit("no_grad", 8).bytes_per_second == 32
    assert FULL.limit("no_grad", 9) is None
    assert [m.method for m in FULL.left_out] == ["to"]
    assert [m.method for m in FULL.of(method="detach")] == ["detach"]
    assert FULL.of(source="leaf") == ()


def _damage(*path, value):
    data = json.loads(json.dumps(FULL.to_dict()))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "not a result of"),
        ([], "not a result of"),
        ({}, "not a result of"),
        ({"schema": "other"}, "not a result of"),
        (_damage("schema_version", value=99), "format 99, this torchcopy reads 1: measure it again"),
        (_damage("kind", value="dreams"), "damaged"),
        (_damage("measurements", value={}), "damaged"),
        (_damage("measurements", 0, "memory", value="borrowed"), "damaged"),
        (_damage("measurements", 0, "timing", "median_seconds", value="soon"), "damaged"),
        (_damage("measurements", 0, "timing", "median_seconds", value=-1), "not positive and in order"),
        (_damage("limits", 0, "timing", "low_seconds", value=0), "not positive and in order"),
        (_damage("limits", 0, "timing", value=None), "damaged"),
        (_damage("machine", value={}), "damaged"),
        (_damage("machine", "gpus", value=None), "damaged"),
        (_damage("seconds", value=None), "damaged"),
    ],
    ids=str,
)
def test_other_data_is_refused_in_one_line(data, message):
    with pytest.raises(InputError, match=message) as caught:
        BenchReport.from_dict(data)
    assert "\n" not in str(caught.value)
