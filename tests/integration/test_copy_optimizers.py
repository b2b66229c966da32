"""Every optimizer of `torch.optim`, copied with its model: the next steps are the same, and no write is seen."""

import pytest
import torch
from copy_structure import Structure, assert_nothing_shared, assert_same_structure, assert_writes_stay_apart
from torch import nn, optim
from training_steps import (
    all_equal,
    assert_the_next_steps_are_the_same,
    parameters_of,
    small_model,
    sparse_model,
    subclasses_in,
    train_one_step,
    weights_of,
)

import torchcopy as tc

pytestmark = pytest.mark.usefixtures("one_thread", "seeded")


def _matrices():
    return nn.Sequential(nn.Linear(4, 6, bias=False), nn.Tanh(), nn.Linear(6, 2, bias=False))


def _groups(model):
    return [
        {"params": model[0].parameters(), "lr": 0.2, "name": "first"},
        {"params": list(model[2].parameters()), "weight_decay": 0.1, "name": "last"},
    ]


def _case(cls, *, model=small_model, params=parameters_of, **options):
    return model, lambda module: cls(params(module), **({"lr": 0.1} | options))


OPTIMIZERS = {
    "ASGD": _case(optim.ASGD, t0=1.0),
    "ASGD, one by one": _case(optim.ASGD, foreach=False),
    "Adadelta": _case(optim.Adadelta),
    "Adafactor": _case(optim.Adafactor),
    "Adagrad": _case(optim.Adagrad),
    "Adagrad, fused": _case(optim.Adagrad, fused=True),
    "Adam": _case(optim.Adam),
    "Adam, fused": _case(optim.Adam, fused=True),
    "Adam, foreach, amsgrad": _case(optim.Adam, foreach=True, amsgrad=True),
    "Adam, groups": _case(optim.Adam, params=_groups),
    "Adam, lr in a tensor": _case(optim.Adam, lr=torch.tensor(0.1)),
    "Adam, named parameters": _case(optim.Adam, params=lambda model: model.named_parameters()),
    "AdamW": _case(optim.AdamW),
    "AdamW, fused, amsgrad": _case(optim.AdamW, fused=True, amsgrad=True),
    "Adamax": _case(optim.Adamax),
    "LBFGS": _case(optim.LBFGS, max_iter=3),
    "LBFGS, strong Wolfe": _case(optim.LBFGS, max_iter=3, line_search_fn="strong_wolfe"),
    "Muon": _case(optim.Muon, model=_matrices),
    "NAdam": _case(optim.NAdam),
    "RAdam": _case(optim.RAdam),
    "RMSprop": _case(optim.RMSprop, centered=True, momentum=0.9),
    "Rprop": _case(optim.Rprop),
    "SGD": _case(optim.SGD),
    "SGD, momentum": _case(optim.SGD, momentum=0.9, nesterov=True, weight_decay=0.01),
    "SGD, fused, maximize": _case(optim.SGD, momentum=0.9, fused=True, maximize=True),
    "SGD, sparse": _case(optim.SGD, model=sparse_model),
    "SparseAdam": _case(optim.SparseAdam, model=sparse_model),
}
every_optimizer = pytest.mark.parametrize(("model", "of"), OPTIMIZERS.values(), ids=OPTIMIZERS.keys())


def test_every_optimizer_has_a_case():
    assert {name.split(",")[0] for name in OPTIMIZERS} == subclasses_in(optim, optim.Optimizer) - {"Optimizer"}


@every_optimizer
@pytest.mark.parametrize("steps", [0, 2])
def test_a_copied_optimizer_goes_on_as_its_source(model, of, steps, make):
    module = model()
    optimizer = of(module)
    for k in range(steps):
        train_one_step(module, optimizer, seed=k)
    source = (module, optimizer)
    copied = make(source, on_escape="error")
    assert_same_structure(source, copied)
    assert_nothing_shared(source, copied)
    assert_the_next_steps_are_the_same(source, copied)


@every_optimizer
def test_no_write_to_an_optimizer_is_seen_on_the_other_side(model, of, make):
    module = model()
    source = (of(module), module)
    train_one_step(*source[::-1])
    assert_writes_stay_apart(source, make(source))


@every_optimizer
def test_the_copied_state_of_an_optimizer_can_be_loaded(model, of, make):
    module = model()
    optimizer = of(module)
    train_one_step(module, optimizer)
    states = make((module.state_dict(), optimizer.state_dict()))
    train_one_step(module, optimizer, seed=1)
    other = model()
    other.load_state_dict(states[0])
    its_optimizer = of(other)
    its_optimizer.load_state_dict(states[1])
    train_one_step(other, its_optimizer, seed=1)
    assert all_equal(weights_of(module), weights_of(other))


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if not name.startswith("LBFGS")])
def test_an_optimizer_written_into_another(name):
    model, of = OPTIMIZERS[name]
    module, other = model(), model()
    source, target = (module, of(module)), (other, of(other))
    for pair in (source, target):
        train_one_step(*pair)
    train_one_step(*source, seed=1)
    tc.copy_(target, source)
    assert_the_next_steps_are_the_same(source, target)


def test_an_optimizer_with_a_longer_history_is_not_written_into_another():
    model, of = OPTIMIZERS["LBFGS"]
    source, target = (model(), model())
    optimizer, other = of(source), of(target)
    train_one_step(source, optimizer)
    train_one_step(source, optimizer, seed=1)
    train_one_step(target, other)
    before = tc.copy((target, other))
    with pytest.raises(tc.InputError, match="both have to be of one length"):
        tc.copy_((target, other), (source, optimizer))
    assert_same_structure((target, other), before)


def test_hooks_of_an_optimizer_are_called_with_the_copy():
    model = small_model()
    optimizer = optim.SGD(parameters_of(model), lr=0.1)
    calls = []
    optimizer.register_step_pre_hook(lambda it, args, kwargs: calls.append(("before", it)))
    handle = optimizer.register_step_post_hook(lambda it, args, kwargs: calls.append(("after", it)))
    optimizer.register_state_dict_post_hook(lambda it, state: state | {"seen": id(it)})
    copied, its_optimizer, its_handle = tc.copy((model, optimizer, handle), on_escape="error")
    train_one_step(copied, its_optimizer)
    assert calls == [("before", its_optimizer), ("after", its_optimizer)]
    assert its_optimizer.state_dict()["seen"] == id(its_optimizer)
    its_handle.remove()
    calls.clear()
    train_one_step(copied, its_optimizer)
    assert calls == [("before", its_optimizer)]
    calls.clear()
    train_one_step(model, optimizer)
    assert calls == [("before", optimizer), ("after", optimizer)]


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature:UserWarning")
def test_an_optimizer_alone_is_refused_also_for_parameters_without_a_shape():
    module = nn.LazyLinear(2)
    optimizer = optim.SGD(module.parameters(), lr=0.1)
    with pytest.raises(tc.CopyError, match=r"tc\.copy\(\(model, optimizer\)\)"):
        tc.copy(optimizer)
    copied, its_optimizer = tc.copy((module, optimizer))
    assert its_optimizer.param_groups[0]["params"][0] is copied.weight


@every_optimizer
def test_the_shapes_alone(model, of):
    module = model()
    optimizer = of(module)
    train_one_step(module, optimizer)
    before = weights_of(module)
    copied, its_optimizer = tc.copy((module, optimizer), device="meta")
    assert [(p.device.type, p.shape) for p in copied.parameters()] == [
        ("meta", p.shape) for p in module.parameters()
    ]
    assert its_optimizer.param_groups[0]["params"][0] is next(copied.parameters())
    kept, its = (Structure(each.state).tensors for each in (optimizer, its_optimizer))
    assert {path: t.shape for path, t in its.items()} == {path: t.shape for path, t in kept.items()}
    assert {t.device.type for t in its.values()} <= {"meta"}
    assert all_equal(weights_of(module), before)
