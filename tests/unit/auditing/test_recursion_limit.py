"""A program that recurses too deep, catches that and goes on: it does so with an audit as without one."""

import copy
import ctypes
import io
import sys

import pytest
import torch
from torch import nn

import torchcopy as tc
from torchcopy import _torch_private

LIMIT = 250


def down(work):
    """Works at each depth until Python refuses."""
    work()
    down(work)


def modes_of_this_thread():
    c = torch._C
    return (
        c._len_torch_dispatch_stack(),
        c._len_torch_function_stack(),
        c._is_torch_function_enabled(),
        str(c._dispatch_tls_local_include_set()),
        str(c._dispatch_tls_local_exclude_set()),
        torch.is_grad_enabled(),
    )


@pytest.fixture
def shallow_limit():
    before, frame, depth = sys.getrecursionlimit(), sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    yield depth + LIMIT
    sys.setrecursionlimit(before)


def works():
    model, t = nn.Linear(3, 3), torch.zeros(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()

    return {
        "clone": t.clone,
        "in place": lambda: t.add_(1),
        "numpy": lambda: t.numpy().sum(),
        "from_numpy": lambda: torch.from_numpy(t.numpy()),
        "data": lambda: model.weight.data,
        "item": lambda: t[0].item(),
        "state_dict": model.state_dict,
        "training step": step,
        "deepcopy": lambda: copy.deepcopy(t),
        "copy": lambda: copy.copy(model),
        "forward": lambda: model(torch.ones(2, 3)),
        "save": lambda: torch.save(t, io.BytesIO()),
    }


@pytest.mark.parametrize("name", works())
def test_what_a_program_catches_is_the_same_and_nothing_is_left_behind(shallow_limit, name):
    before = modes_of_this_thread()
    with tc.audit() as audit:
        inside = modes_of_this_thread()
        work = works()[name]
        sys.setrecursionlimit(shallow_limit)
        with pytest.raises(RecursionError):
            down(work)
        sys.setrecursionlimit(shallow_limit + 1_000)
        assert modes_of_this_thread() == inside
        work()
    assert modes_of_this_thread() == before
    assert audit.report.seconds > 0


def test_memory_that_cannot_be_read_for_lack_of_frames_is_no_wrong_argument(shallow_limit):
    t = torch.arange(4.0)
    seen = []

    def digest():
        seen.append(_torch_private.digest(t.data_ptr(), t.nbytes))

    sys.setrecursionlimit(shallow_limit)
    with pytest.raises(RecursionError):
        down(digest)
    assert len(seen) > 10
    assert set(seen) == {hash(ctypes.string_at(t.data_ptr(), 16))}
