"""A source that another thread changes meanwhile: the copy is of one moment or another, or Python's own error."""

import collections
import itertools
import sys

import pytest
import torch
from torch import nn

import torchcopy as tc


class Holder:
    pass


def numbered(count=20):
    return {str(n): torch.full((1,), float(n)) for n in range(count)}


def in_attributes():
    holder = Holder()
    holder.__dict__.update(numbered())
    return holder


def in_parameters():
    return nn.ParameterDict({str(n): nn.Parameter(torch.full((1,), float(n))) for n in range(20)})


def move_on(named):
    """What a cache does: the oldest go, new ones come."""
    for n in range(1000, 1003):
        del named[next(iter(named))]
        named[str(n)] = torch.full((1,), float(n))


def add_parameter(model):
    del model["0"]
    model["1000"] = nn.Parameter(torch.full((1,), 1000.0))


def shift(items):
    items.append(torch.full((1,), 20.0))
    items.pop(0)


LATE = torch.ones(2)


def put_tensor_into_settings(settings):
    settings["3"]["t"] = LATE


def is_named_rightly(named):
    return all(type(t) in (torch.Tensor, nn.Parameter) and float(t.detach()) == float(n) for n, t in named.items())


def are_tensors(items):
    return all(type(t) is torch.Tensor and t.numel() == 1 for t in items)


def has_its_own_settings(settings):
    return all(each["v"] == int(n) and each.get("t") is not LATE for n, each in settings.items())


CHANGES = {
    "dict": (numbered, move_on, is_named_rightly),
    "small dict": (lambda: numbered(4), move_on, is_named_rightly),
    "OrderedDict": (lambda: collections.OrderedDict(numbered()), move_on, is_named_rightly),
    "emptied": (numbered, dict.clear, is_named_rightly),
    "attributes": (in_attributes, lambda h: move_on(vars(h)), lambda h: is_named_rightly(vars(h))),
    "module": (in_parameters, add_parameter, lambda m: is_named_rightly(m._parameters)),
    "list": (lambda: list(numbered().values()), shift, are_tensors),
    "deque": (lambda: collections.deque(numbered().values()), collections.deque.popleft, are_tensors),
    "set": (lambda: {LATE, 1, 2, 3}, lambda s: s.add(77), lambda s: LATE not in s),
    "settings": (
        lambda: {str(n): {"v": n} for n in range(20)},
        lambda d: d.update({"1000": {"v": 1000}}) or d.pop("0"),
        has_its_own_settings,
    ),
    "settings get a tensor": (
        lambda: {str(n): {"v": n} for n in range(20)},
        put_tensor_into_settings,
        has_its_own_settings,
    ),
}


def copied_while_changed(make, source, change, moment):
    """The copy, and whether it took so long that `source` was changed: when Python made its `moment`-th call."""
    calls = itertools.count()

    def changed_once(frame, event, arg):
        if next(calls) == moment:
            sys.setprofile(before)
            change(source)

    before = sys.getprofile()
    sys.setprofile(changed_once)
    try:
        return make(source), sys.getprofile() is not changed_once
    except RuntimeError as error:
        return error, True
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("make", [tc.copy, tc.fork], ids=["copy", "fork"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_copy_is_of_one_moment_or_python_says_so(name, make):
    make_source, change, is_right = CHANGES[name]
    copies = 0
    for moment in itertools.count():
        copied, was_changed = copied_while_changed(make, make_source(), change, moment)
        if isinstance(copied, RuntimeError):
            assert "during iteration" in str(copied)
        else:
            assert is_right(copied)
            copies += 1
        if not was_changed:
            break
    assert copies > 20
    assert moment > 50


def test_the_copy_of_what_changed_is_apart_from_it():
    source = numbered()
    copied, was_changed = copied_while_changed(tc.copy, source, move_on, 10)
    assert was_changed
    for t in source.values():
        t.fill_(-1)
    assert is_named_rightly(copied)
    for t in copied.values():
        t.fill_(-2)
    assert {float(t) for t in source.values()} == {-1}
