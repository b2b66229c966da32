"""Modules with hooks of every kind: those of the copy are called with the copy, and removed from it alone."""

import pytest
import torch
from copy_structure import assert_nothing_shared, assert_same_structure, assert_writes_stay_apart
from torch import nn

import torchcopy as tc

pytestmark = pytest.mark.usefixtures("one_thread")

CALLS = []


def _seen(*args, **kwargs):
    """A hook of any kind; the first argument tells which module has called it."""
    CALLS.append(args[0])


def _seen_with_result(*args):
    CALLS.append(args[0])
    return args[-1]


def _seen_in_state_dict(module, state, prefix, *rest):
    CALLS.append(module)
    state[f"{prefix}hooked"] = torch.ones(())


def _seen_before_loading(module, state, prefix, *rest):
    CALLS.append(module)
    state.pop(f"{prefix}old_name", None)


def _seen_after_loading(module, incompatible):
    CALLS.append(module)


def _by_state_dict(module):
    module.state_dict()


def _by_loading(module):
    module.load_state_dict(module.state_dict() | {"old_name": torch.ones(())})


def _by_loading_plainly(module):
    module.load_state_dict(module.state_dict())


def _by_forward(module):
    with torch.no_grad():
        module(torch.ones(1, 3))


def _by_backward(module):
    module(torch.ones(1, 3, requires_grad=True)).sum().backward()
    module.zero_grad()


KINDS = {
    "forward": (lambda m: m.register_forward_hook(_seen), _by_forward),
    "forward, with keywords": (lambda m: m.register_forward_hook(_seen, with_kwargs=True), _by_forward),
    "forward, always called": (lambda m: m.register_forward_hook(_seen, always_call=True), _by_forward),
    "forward, first": (lambda m: m.register_forward_hook(_seen, prepend=True), _by_forward),
    "before forward": (lambda m: m.register_forward_pre_hook(_seen), _by_forward),
    "before forward, with keywords": (lambda m: m.register_forward_pre_hook(_seen, with_kwargs=True), _by_forward),
    "backward": (lambda m: m.register_full_backward_hook(_seen), _by_backward),
    "before backward": (lambda m: m.register_full_backward_pre_hook(_seen), _by_backward),
    "before state_dict": (lambda m: m.register_state_dict_pre_hook(_seen), _by_state_dict),
    "state_dict": (lambda m: m.register_state_dict_post_hook(_seen_in_state_dict), _by_state_dict),
    "before load_state_dict": (lambda m: m.register_load_state_dict_pre_hook(_seen_before_loading), _by_loading),
    "load_state_dict": (lambda m: m.register_load_state_dict_post_hook(_seen_after_loading), _by_loading_plainly),
}
every_kind = pytest.mark.parametrize(("register", "run"), KINDS.values(), ids=KINDS.keys())


@pytest.fixture(autouse=True)
def _no_calls_yet():
    CALLS.clear()


@every_kind
def test_a_hook_is_called_with_the_copy(register, run, make):
    module = nn.Linear(3, 2)
    register(module)
    copied = make(module, on_escape="error")
    assert_same_structure(module, copied)
    assert_nothing_shared(module, copied)
    assert_writes_stay_apart(module, copied)
    run(copied)
    assert CALLS
    assert all(each is copied for each in CALLS)
    CALLS.clear()
    run(module)
    assert CALLS
    assert all(each is module for each in CALLS)


@every_kind
def test_a_hook_is_removed_from_one_side_alone(register, run, make):
    module = nn.Linear(3, 2)
    handle = register(module)
    copied, its_handle = make((module, handle))
    assert its_handle is not handle
    handle.remove()
    run(module) if run is not _by_loading else _by_loading_plainly(module)
    assert CALLS == []
    run(copied)
    assert CALLS
    CALLS.clear()
    its_handle.remove()
    run(copied) if run is not _by_loading else _by_loading_plainly(copied)
    assert CALLS == []


@every_kind
def test_a_hook_is_added_to_one_side_alone(register, run):
    module = nn.Linear(3, 2)
    copied = tc.copy(module)
    register(copied)
    run(module) if run is not _by_loading else _by_loading_plainly(module)
    assert CALLS == []
    run(copied)
    assert all(each is copied for each in CALLS)
    assert CALLS


class Recorder:
    """Keeps what a layer returned last; its method is the hook."""

    def __init__(self):
        self.last = None

    def record(self, module, args, output):
        self.last = output.detach()


class Recorded(nn.Module):
    """Holds its recorders, and a hook that is its own method."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.recorder = Recorder()
        self.layer.register_forward_hook(self.recorder.record)
        self.layer.register_forward_pre_hook(self.count)
        self.register_buffer("calls", torch.zeros(()))

    def count(self, module, args):
        self.calls += 1

    def forward(self, x):
        return self.layer(x)


def test_methods_as_hooks_change_the_copy(make):
    source = Recorded()
    _by_forward(source)
    copied = make(source, on_escape="error")
    assert_same_structure(source, copied)
    kept = source.recorder.last.clone()
    copied(torch.full((1, 3), 2.0))
    assert (float(source.calls), float(copied.calls)) == (1.0, 2.0)
    assert torch.equal(source.recorder.last, kept)
    assert not torch.equal(copied.recorder.last, kept)
    source(torch.full((1, 3), 3.0))
    source(torch.full((1, 3), 3.0))
    assert (float(source.calls), float(copied.calls)) == (3.0, 2.0)


def test_a_hook_that_holds_the_source_is_reported():
    source = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    source[1].register_forward_pre_hook(lambda module, args: (args[0] + source[0].bias,))
    with pytest.warns(tc.EscapeWarning, match=r"_forward_pre_hooks\[\d+\]\.__closure__\['source'\]"):
        tc.copy(source)


def test_hooks_of_parameters_stay_with_the_source(make):
    """As `copy.deepcopy` has it: a tensor's hooks belong to its place in the graph."""
    module = nn.Linear(3, 2)
    module.weight.register_hook(_seen)
    module.bias.register_post_accumulate_grad_hook(_seen)
    copied = make(module)
    _by_backward(copied)
    assert CALLS == []
    _by_backward(module)
    assert len(CALLS) == 2
    assert any(each is module.bias for each in CALLS)
