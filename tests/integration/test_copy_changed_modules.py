"""Modules that were changed after they were made: parametrized, pruned, compiled, or run with other weights."""

import warnings

import pytest
import torch
from copy_structure import (
    assert_nothing_shared,
    assert_same_structure,
    assert_same_values,
    assert_writes_stay_apart,
)
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn.utils import parametrizations, parametrize, prune
from training_steps import all_equal, train_one_step, weights_of

import torchcopy as tc

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    # Compiled modules look at it on every input.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]


class Symmetric(nn.Module):
    """Makes a square matrix symmetric, with a scale that can be learned."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.scale * (x.triu() + x.triu(1).mT)

    def right_inverse(self, x):
        return x / self.scale


def _old_norm(change, *layers, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # weight_norm is deprecated, and in use
        for layer in layers:
            change(layer, **options)
    return layers[0]


def _twice(layer):
    parametrize.register_parametrization(layer, "weight", Symmetric())
    parametrize.register_parametrization(layer, "weight", Symmetric())
    parametrize.register_parametrization(layer, "bias", nn.Tanh())
    return layer


def _one_for_two():
    first, second, shared = nn.Linear(4, 4), nn.Linear(4, 4), Symmetric()
    for layer in (first, second):
        parametrize.register_parametrization(layer, "weight", shared)
    return nn.Sequential(first, second)


def _pruned(change, **options):
    layer = nn.Linear(4, 4)
    change(layer, "weight", **options)
    return layer


def _pruned_together():
    layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    prune.global_unstructured([(layer, "weight") for layer in layers], prune.L1Unstructured, amount=0.4)
    return layers


def _pruned_twice():
    layer = _pruned(prune.random_unstructured, amount=0.3)
    prune.ln_structured(layer, "weight", 0.3, 2, 0)
    prune.l1_unstructured(layer, "bias", 1)
    return layer


def _compiled_in_place():
    layer = nn.Linear(4, 4)
    layer.compile(backend="eager")
    return layer


class Recurrent(nn.Module):
    """A recurrent layer whose output is one tensor."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


CHANGED = {
    "weight_norm, new": lambda: parametrizations.weight_norm(nn.Linear(4, 4), dim=1),
    "weight_norm, new, of a GRU": lambda: Recurrent(parametrizations.weight_norm(nn.GRU(4, 4), "weight_hh_l0")),
    "weight_norm, old": lambda: _old_norm(nn.utils.weight_norm, nn.Linear(4, 4)),
    "weight_norm, old, of an LSTM": lambda: Recurrent(
        _old_norm(nn.utils.weight_norm, nn.LSTM(4, 4), name="weight_ih_l0")
    ),
    "spectral_norm, new": lambda: parametrizations.spectral_norm(nn.Linear(4, 4)),
    "spectral_norm, old": lambda: nn.utils.spectral_norm(nn.Linear(4, 4)),
    "orthogonal, matrix_exp": lambda: parametrizations.orthogonal(nn.Linear(4, 4)),
    "orthogonal, cayley": lambda: parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="cayley"),
    "orthogonal, householder": lambda: parametrizations.orthogonal(nn.Linear(4, 3), orthogonal_map="householder"),
    "parametrized twice": lambda: _twice(nn.Linear(4, 4)),
    "one parametrization for two": _one_for_two,
    "pruned at random": lambda: _pruned(prune.random_unstructured, amount=0.4),
    "pruned by rows": lambda: _pruned(prune.ln_structured, amount=0.5, n=2, dim=0),
    "pruned by a mask": lambda: _pruned(prune.custom_from_mask, mask=torch.eye(4)),
    "pruned together": _pruned_together,
    "pruned twice": _pruned_twice,
    "compiled": lambda: torch.compile(nn.Linear(4, 4), backend="eager"),
    "compiled in place": _compiled_in_place,
    "compiled, parametrized": lambda: torch.compile(_twice(nn.Linear(4, 4)), backend="eager"),
    "with compiled layers": lambda: nn.Sequential(
        torch.compile(nn.Linear(4, 4), backend="eager"), nn.Tanh(), nn.Linear(4, 4)
    ),
}
every_module = pytest.mark.parametrize("build", CHANGED.values(), ids=CHANGED.keys())


@pytest.fixture(autouse=True)
def _fresh():
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def _run(module):
    torch.manual_seed(5)
    with torch.no_grad():
        return module(torch.randn(3, 4))


def _model(build):
    return nn.Sequential(nn.Linear(4, 4), build())


def _optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def _without_compiled_code(module):
    """What can be compared: compiled functions are made anew."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


@every_module
@pytest.mark.parametrize("after", ["built", "run", "trained"])
def test_a_changed_module_goes_on_as_its_source(build, after, make):
    model = _model(build)
    optimizer = _optimizer(model)
    if after == "run":
        model(torch.randn(3, 4))
    elif after == "trained":
        train_one_step(model, optimizer)
    copied, its_optimizer = make((model, optimizer), on_escape="error")
    ours, theirs = map(_without_compiled_code, (model, copied))
    assert_same_structure(ours, theirs)
    assert_nothing_shared(ours, theirs)
    assert_writes_stay_apart(ours, theirs)
    losses = [train_one_step(each, step) for each, step in ((model, optimizer), (copied, its_optimizer))]
    assert losses[0] == losses[1]
    assert all_equal(weights_of(model), weights_of(copied))
    assert_same_values(_run(model.eval()), _run(copied.eval()))


@every_module
def test_training_one_side_leaves_the_other_alone(build, make):
    model = _model(build)
    _run(model)
    copied = make((model, _optimizer(model)), on_escape="error")
    before = _run(model.eval())
    model.train()
    train_one_step(*copied)
    assert_same_values(_run(model.eval()), before)
    assert not torch.equal(_run(copied[0].eval()), before)


@pytest.mark.parametrize("name", [name for name in CHANGED if "compiled" not in name])
def test_every_object_of_it_is_copied(name):
    model = _model(CHANGED[name])
    train_one_step(model, _optimizer(model))
    copied = tc.copy(model, on_escape="error")
    assert_same_structure(model, copied)
    assert_nothing_shared(model, copied)


@pytest.mark.parametrize("name", [name for name in CHANGED if "compiled" not in name])
def test_a_changed_module_written_into_another(name):
    torch.manual_seed(1)
    source = _model(CHANGED[name])
    torch.manual_seed(2)
    target = _model(CHANGED[name])
    tc.copy_(target, source)
    assert_same_values(_run(source.eval()), _run(target.eval()))
    before = weights_of(source)
    losses = [train_one_step(each, _optimizer(each)) for each in (target.train(), source.train())]
    assert losses[0] == losses[1]
    assert not all_equal(weights_of(source), before)
    assert all_equal(weights_of(source), weights_of(target))


# --- changing one side further -------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", ["source", "copy"])
def test_a_parametrization_is_removed_from_one_side_alone(changed):
    source = _twice(nn.Linear(4, 4))
    copied = tc.copy(source)
    expected = _run(source)
    one, other = (source, copied) if changed == "source" else (copied, source)
    for name in ("weight", "bias"):
        parametrize.remove_parametrizations(one, name)
    assert not parametrize.is_parametrized(one)
    assert parametrize.is_parametrized(other, "weight")
    assert type(one) is nn.Linear
    assert_same_values(_run(one), expected)
    assert_same_values(_run(other), expected)


@pytest.mark.parametrize("changed", ["source", "copy"])
def test_a_parametrization_is_added_to_one_side_alone(changed):
    source = parametrizations.weight_norm(nn.Linear(4, 4))
    copied = tc.copy(source)
    expected = _run(source)
    one, other = (source, copied) if changed == "source" else (copied, source)
    parametrize.register_parametrization(one, "bias", nn.Tanh())
    assert isinstance(other.bias, nn.Parameter)
    assert_same_values(_run(other), expected)
    assert not torch.equal(_run(one), expected)


class WithOwnCopy(nn.Linear):
    """A layer that says itself how it is copied."""

    def __deepcopy__(self, memo):
        new = self.__class__.__new__(self.__class__)
        memo[id(self)] = new
        new.__dict__ = tc.copy(self.__dict__, memo=memo)
        return new


@pytest.mark.parametrize("build", [nn.Linear, WithOwnCopy, nn.GRU], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("memory", ["own", "lazy", "share"])
def test_each_copy_of_a_parametrized_module_has_a_class_of_its_own(build, memory):
    source = build(4, 4)
    name = next(iter(dict(source.named_parameters())))
    parametrize.register_parametrization(source, name, Symmetric() if build is not nn.GRU else nn.Tanh())
    copies = [tc.copy(source, memory=memory, on_escape="error") for _ in range(2)]
    assert len({type(each) for each in (source, *copies)}) == 3
    for each in copies:
        assert type(each).__bases__ == (build,)
        assert type(each).__name__ == type(source).__name__
        assert parametrize.type_before_parametrizations(each) is build
    assert_same_values(getattr(copies[0], name), getattr(source, name))
    parametrize.remove_parametrizations(copies[0], name)
    assert_same_values(getattr(copies[1], name), getattr(source, name))


@pytest.mark.parametrize("changed", ["source", "copy"])
def test_pruning_ends_on_one_side_alone(changed):
    source = _pruned_twice()
    copied = tc.copy(source)
    expected = _run(source)
    one, other = (source, copied) if changed == "source" else (copied, source)
    prune.remove(one, "weight")
    assert "weight" in dict(one.named_parameters())
    assert "weight_orig" in dict(other.named_parameters())
    with torch.no_grad():
        one.weight.zero_()
    assert_same_values(_run(other), expected)


@pytest.mark.parametrize("changed", ["source", "copy"])
def test_a_norm_of_the_old_kind_is_removed_from_one_side_alone(changed):
    source = _old_norm(nn.utils.weight_norm, nn.Linear(4, 4))
    copied = tc.copy(source)
    expected = _run(source)
    one, other = (source, copied) if changed == "source" else (copied, source)
    nn.utils.remove_weight_norm(one)
    assert set(dict(one.named_parameters())) == {"weight", "bias"}
    assert set(dict(other.named_parameters())) == {"weight_g", "weight_v", "bias"}
    with torch.no_grad():
        one.weight.zero_()
    assert_same_values(_run(other), expected)


def test_a_copied_module_is_compiled_for_itself(make):
    inner = nn.Linear(4, 4)
    source = torch.compile(inner, backend="eager")
    expected = _run(source)
    copied = make(source, on_escape="error")
    assert type(copied) is type(source)
    assert copied._orig_mod is not inner
    with torch.no_grad():
        inner.weight.zero_()
    assert_same_values(_run(copied), expected)
    with torch.no_grad():
        copied._orig_mod.weight.fill_(1.0)
    assert_same_values(_run(source), inner.bias.detach().expand(3, 4))


# --- stateless calls -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["own", "lazy"])
def test_a_module_run_with_copied_parameters(memory):
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    parameters = tc.copy(dict(module.named_parameters()), memory=memory)
    x = torch.randn(3, 4)
    before = weights_of(module)
    assert_same_values(functional_call(module, parameters, (x,)), module(x))
    with torch.no_grad():
        for p in parameters.values():
            p.mul_(2.0)
    assert all_equal(weights_of(module), before)
    assert not torch.equal(functional_call(module, parameters, (x,)), module(x))


@pytest.mark.parametrize("memory", ["own", "lazy"])
def test_gradients_flow_back_through_kept_parameters(memory):
    module = nn.Linear(4, 2)
    parameters = tc.copy(dict(module.named_parameters()), graph="keep", memory=memory)
    x = torch.randn(3, 4)
    functional_call(module, parameters, (x,)).square().sum().backward()
    kept = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module(x).square().sum().backward()
    assert all_equal(kept, [p.grad for p in module.parameters()])


def test_an_inner_step_on_kept_parameters_is_differentiable():
    module = nn.Linear(4, 2)
    x = torch.randn(3, 4)
    fast = tc.copy(dict(module.named_parameters()), graph="keep")
    gradients = torch.autograd.grad(
        functional_call(module, fast, (x,)).square().sum(), tuple(fast.values()), create_graph=True
    )
    stepped = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), gradients, strict=True)}
    before = weights_of(module)
    functional_call(module, stepped, (x,)).square().sum().backward()
    assert all(p.grad is not None for p in module.parameters())
    assert all_equal(weights_of(module), before)


def test_an_ensemble_in_one_tensor_each(make):
    modules = [nn.Linear(4, 2) for _ in range(3)]
    source = stack_module_state(modules)
    copied = make(source)
    assert_same_structure(source, copied)
    assert_writes_stay_apart(source, copied)
    base, x = tc.copy(modules[0], device="meta"), torch.randn(5, 4)

    def loss(parameters):
        return functional_call(base, parameters, (x,)).square().mean()

    assert_same_values(vmap(grad(loss))(copied[0]), vmap(grad(loss))(source[0]))


def test_copies_within_a_transform():
    def scaled(x):
        held = tc.copy({"x": x}, graph="keep")["x"]
        return (held * held).sum()

    x = torch.arange(3.0)
    assert torch.equal(grad(scaled)(x), 2 * x)
    assert torch.equal(vmap(lambda row: tc.copy([row])[0] + 1)(torch.zeros(2, 3)), torch.ones(2, 3))
