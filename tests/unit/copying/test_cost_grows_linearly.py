"""The work that a copy takes grows with what is copied, and no faster: counted in lines that Python runs."""

import sys

import pytest
import torch

import torchcopy as tc
from torchcopy.copying.copy_on_write import anchors


class ByConstructor:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce__(self):
        return ByConstructor, (self.tensor,)


class BySetState:
    def __init__(self, tensor):
        self.tensor = tensor

    def __getstate__(self):
        return self.tensor

    def __setstate__(self, tensor):
        self.tensor = tensor


def far_apart(n):
    storage = torch.zeros(8 * n)
    return [storage[8 * k : 8 * k + 2] for k in range(n)]


def lines_run(call):
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        count += event == "line"
        return trace

    anchors.settle()  # what tests before this one left would be looked at too
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "options", [{}, {"dtype": torch.float64}, {"grad": True}, {"memory": "lazy"}, {"graph": "keep"}], ids=str
)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda n: [torch.zeros(2) for _ in range(n)], id="tensors"),
        pytest.param(far_apart, id="views of one storage that do not touch"),
        pytest.param(lambda n: [ByConstructor(torch.zeros(2)) for _ in range(n)], id="__reduce__"),
        pytest.param(lambda n: [ByConstructor(t) for t in far_apart(n)], id="__reduce__ of views"),
        pytest.param(lambda n: [ByConstructor(torch.zeros(4)[1:3]) for _ in range(n)], id="__reduce__ of parts"),
        pytest.param(lambda n: [BySetState(torch.zeros(2, 2).t()) for _ in range(n)], id="__setstate__"),
        pytest.param(lambda n: [{str(k): torch.zeros(1) for k in range(9)} for _ in range(n)], id="dicts of nine"),
    ],
)
def test_four_times_as_much_takes_four_times_the_work(make, options):
    small, large = make(40), make(160)
    lines_run(lambda: tc.copy(make(40), **options))  # what is done once
    assert lines_run(lambda: tc.copy(large, **options)) < 5 * lines_run(lambda: tc.copy(small, **options))


@pytest.mark.parametrize("dtype", [None, torch.float64], ids=["as they are", "converted"])
@pytest.mark.parametrize("wrap", [list, lambda tensors: list(map(ByConstructor, tensors))], ids=["list", "objects"])
def test_views_that_do_not_touch_are_copied_each_from_its_place(wrap, dtype):
    source = far_apart(5)
    for k, t in enumerate(source):
        t.fill_(k)
    copied = [getattr(each, "tensor", each) for each in tc.copy(wrap(source), dtype=dtype)]
    for t in source:
        t.fill_(-1.0)
    assert [c.tolist() for c in copied] == [[k, k] for k in range(5)]
    for k, c in enumerate(copied):
        c.fill_(10 + k)
    assert [c.tolist() for c in copied] == [[10 + k, 10 + k] for k in range(5)]
    assert all(t.tolist() == [-1, -1] for t in source)
