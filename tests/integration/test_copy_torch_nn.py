"""Every module class of `torch.nn`, copied and forked: computes the same, trains the same, is independent."""

import pytest
import torch
from copy_structure import (
    assert_nothing_shared,
    assert_same_structure,
    assert_same_values,
    assert_writes_stay_apart,
    tensors_in,
)
from torch import nn
from torch.nn.parameter import is_lazy
from torch_nn_modules import CASES, LEFT_OUT

import torchcopy as tc


def _named(case):
    return case.name


pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:.*(Container|NLLLoss2d)` (is|has been) deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning"),
]
every_case = pytest.mark.parametrize("case", CASES, ids=_named)
every_lazy_case = pytest.mark.parametrize("case", [case for case in CASES if case.lazy], ids=_named)


def _built(case, seed=0):
    """The module with all its parameters."""
    module = case.build(seed)
    if case.lazy:
        with torch.no_grad():
            case.run(module, seed)
    return module


def _run(case, module, seed=0):
    with torch.no_grad():
        return case.run(module, seed)[0]


def _train_one_step(case, module, optimizer, seed=0):
    """One step on inputs that require grad; the outputs, and the gradients of the inputs."""
    if optimizer is not None:
        optimizer.zero_grad()
    outputs, inputs = case.run(module, seed, requires_grad=True)
    losses = [t.square().mean() for t in tensors_in(outputs) if t.requires_grad]
    sum(losses, torch.zeros(())).backward()
    if optimizer is not None:
        optimizer.step()
    return [t.detach().clone() for t in tensors_in(outputs)], [x.grad for x in inputs]


def _optimizer(module):
    trained = [p for p in module.parameters() if p.requires_grad]
    return torch.optim.SGD(trained, lr=0.1, momentum=0.9) if trained else None


def _tensors(module):
    return [*module.parameters(), *module.buffers()]


def _state(module):
    return [t.detach().clone() for t in _tensors(module)]


def _equal(ours, theirs):
    return len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))


def test_every_class_has_a_case():
    classes = {name for name, cls in vars(nn).items() if isinstance(cls, type) and issubclass(cls, nn.Module)}
    assert len(classes) > 150
    covered = {case.class_name for case in CASES}
    assert covered <= classes
    assert classes - covered == LEFT_OUT.keys()
    assert all(LEFT_OUT.values())


def test_every_case_makes_its_class():
    for case in CASES:
        assert type(case.build()) is getattr(nn, case.class_name), case.name
    assert len({case.name for case in CASES}) == len(CASES)


@every_case
def test_a_copy_computes_the_same(case, make):
    module = _built(case)
    copied = make(module, on_escape="error")
    assert_same_structure(module, copied)
    assert_nothing_shared(module, copied)
    assert_same_values(_run(case, module), _run(case, copied))
    assert_same_structure(module, copied)  # what a forward changes was changed on both sides


@every_case
def test_no_write_is_seen_on_the_other_side(case, make):
    module = _built(case)
    copied, was_training = make(module), module.training
    expected = tc.copy(_run(case, make(module)))
    assert_writes_stay_apart(module, copied)
    module.eval().added = "to the source"
    copied.another = "to the copy"
    assert copied.training == was_training
    assert not hasattr(copied, "added")
    assert not hasattr(module, "another")
    with torch.no_grad():
        for p in module.parameters():
            p.zero_()
    assert_same_values(_run(case, copied), expected)


@every_case
def test_training_goes_on_the_same_on_both_sides(case, make):
    module = _built(case)
    optimizer = _optimizer(module)
    _train_one_step(case, module, optimizer)
    copied, its_optimizer = make((module, optimizer), on_escape="error")
    assert_same_structure((module, optimizer), (copied, its_optimizer))
    at_copy = _state(module)
    assert _equal(_state(copied), at_copy)

    results = _train_one_step(case, module, optimizer, seed=1)
    after_step = _state(module)
    assert _equal(_state(copied), at_copy)
    assert optimizer is None or not _equal(after_step, at_copy)

    its_results = _train_one_step(case, copied, its_optimizer, seed=1)
    assert _equal(_state(module), after_step)
    assert _equal(_state(copied), after_step)
    assert_same_values(results, its_results)


@every_case
def test_written_into_another_of_its_kind(case):
    module, other = _built(case), _built(case, seed=1)
    assert tc.copy_(other, module) is other
    assert _equal(_state(module), _state(other))
    assert_same_values(_run(case, module), _run(case, other))
    assert_writes_stay_apart(module, other)


# --- lazy modules --------------------------------------------------------------------------------------------


def _is_uninitialized(module):
    return any(map(is_lazy, _tensors(module)))


@every_lazy_case
def test_a_lazy_module_is_initialised_on_each_side(case, make):
    module = case.build()
    copied = make(module, on_escape="error")
    assert _is_uninitialized(copied)
    assert_same_structure(module, copied)
    assert_nothing_shared(module, copied)

    outputs = _run(case, module)
    assert not _is_uninitialized(module)
    assert _is_uninitialized(copied)
    assert_same_values(_run(case, copied), outputs)
    assert type(copied) is type(module)
    assert not hasattr(copied, "_initialize_hook")
    assert_writes_stay_apart(module, copied)


@every_lazy_case
def test_a_lazy_module_takes_another_shape_on_each_side(case, make):
    module = case.build()
    copied = make(module)
    _run(case, module)
    (inputs,) = case.inputs()
    size = inputs.shape[1] + 2
    with torch.no_grad():
        copied(torch.randn(inputs.shape[0], size, *inputs.shape[2:]))
    shapes = [[tuple(t.shape) for t in _state(each)] for each in (module, copied)]
    assert shapes[0] != shapes[1]


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature:UserWarning")
def test_an_optimizer_trains_what_was_lazy():
    module = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    copied, its_optimizer = tc.copy((module, optimizer))
    torch.manual_seed(0)
    copied(torch.randn(2, 4)).square().sum().backward()
    before = copied[0].weight.detach().clone()
    its_optimizer.step()
    assert not torch.equal(copied[0].weight, before)
    assert _is_uninitialized(module[0])


@every_lazy_case
def test_what_is_made_later_has_the_dtype_that_was_asked_for(case):
    module = case.build()
    for t in _tensors(module):
        t.note = ["mine"]
    copied = tc.copy(module, dtype=torch.float64, requires_grad=False)
    for ours, theirs in zip(_tensors(module), _tensors(copied), strict=True):
        assert theirs.note == ["mine"]
        assert theirs.note is not ours.note
    (inputs,) = case.inputs()
    with torch.no_grad():
        assert copied(inputs.double()).dtype == torch.float64
    assert {t.dtype for t in _tensors(copied)} <= {torch.float64, torch.int64}
    assert not any(t.requires_grad for t in _tensors(copied))
    assert _is_uninitialized(module)
    assert _run(case, module).dtype == torch.float32
