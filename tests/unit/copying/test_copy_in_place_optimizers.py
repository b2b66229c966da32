"""`copy_` and `lerp_` between optimizers and their state_dicts."""

import inspect

import pytest
import torch
from in_place_checks import assert_apart, assert_refused, holds, tensors_of, values_of
from torch import nn, optim

import torchcopy as tc

OPTIMIZERS = sorted(
    name
    for name, cls in vars(optim).items()
    if inspect.isclass(cls) and issubclass(cls, optim.Optimizer) and cls is not optim.Optimizer
)


def training(name, seed, *, steps=3):
    """A model and its optimizer after some steps; seeds differ in the data and in the learning rate."""
    torch.manual_seed(0)
    sparse = name == "SparseAdam"
    model = nn.Embedding(3, 2, sparse=True) if sparse else nn.Linear(3, 2)
    parameters = [model.weight] if name == "Muon" else list(model.parameters())
    options = {"momentum": 0.9} if name == "SGD" else {"max_iter": 2} if name == "LBFGS" else {}
    optimizer = getattr(optim, name)(parameters, lr=0.01 * (seed + 1), **options)
    torch.manual_seed(seed)
    for _ in range(steps):
        step(model, optimizer, torch.tensor([0, 1, 2]) if sparse else torch.randn(4, 3) * (seed + 1))
    return model, optimizer


def step(model, optimizer, x):
    def closure():
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)


def flat(x, path=""):
    if isinstance(x, dict):
        return {p: v for key in x for p, v in flat(x[key], f"{path}[{key!r}]").items()}
    if isinstance(x, (list, tuple)):
        return {p: v for k, each in enumerate(x) for p, v in flat(each, f"{path}[{k}]").items()}
    return {path: x}


def same_state(a, b):
    """Whether two optimizers have equal state_dicts."""
    ours, theirs = flat(a.state_dict()), flat(b.state_dict())
    return ours.keys() == theirs.keys() and all(
        torch.equal(v, theirs[k]) if isinstance(v, torch.Tensor) else v == theirs[k] for k, v in ours.items()
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.filterwarnings("ignore:.*deprecated.*")
def test_a_training_continues_as_its_source_would(name):
    (model, optimizer), (other_model, other) = training(name, 0), training(name, 1)
    assert not same_state(optimizer, other)
    expected = values_of([other_model, other])
    both = (model, optimizer)
    assert tc.copy_(both, (other_model, other)) is both
    assert same_state(optimizer, other)
    assert holds([other_model, other], expected), "src was written"
    x = torch.tensor([0, 2]) if name == "SparseAdam" else torch.ones(2, 3)
    before = values_of([model, optimizer])
    step(other_model, other, x)
    assert holds([model, optimizer], before), "a step of src is seen in dst"
    step(model, optimizer, x)
    assert holds([model, optimizer], values_of([other_model, other])), "dst takes another step than src"
    assert same_state(optimizer, other)
    assert_apart([model, optimizer], [other_model, other])


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.filterwarnings("ignore:.*deprecated.*")
def test_state_dicts_on_either_side(name):
    (model, optimizer), (_, other) = training(name, 0), training(name, 1)
    weights = values_of(model)
    tc.copy_(optimizer, other.state_dict())
    assert same_state(optimizer, other)
    assert holds(model, weights), "the parameters are not the optimizer's to copy"
    (_, optimizer), (_, other) = training(name, 0), training(name, 1)
    state = optimizer.state_dict()
    tc.copy_(state, other)
    fresh = training(name, 2)[1]
    fresh.load_state_dict(state)
    assert same_state(fresh, other)
    assert_apart(optimizer, other)


def test_options_of_groups():
    def build(lr):
        a, b = nn.Linear(1, 1), nn.Linear(1, 1)
        return optim.SGD([{"params": a.parameters(), "lr": lr}, {"params": b.parameters(), "momentum": lr}], lr=1.0)

    dst, src = build(0.1), build(0.2)
    group = dst.param_groups[0]
    parameters = list(group["params"])
    tc.copy_(dst, src)
    assert [g["lr"] for g in dst.param_groups] == [0.2, 1.0]
    assert dst.param_groups[1]["momentum"] == 0.2
    assert dst.param_groups[0] is group
    assert all(map(lambda a, b: a is b, group["params"], parameters))
    src.param_groups[0]["lr"] = 9
    assert group["lr"] == 0.2
    group["lr"] = 5
    assert src.param_groups[0]["lr"] == 9


def test_a_learning_rate_that_is_a_tensor():
    dst = optim.Adam([nn.Parameter(torch.zeros(1))], lr=torch.tensor(0.1), foreach=False, capturable=False)
    src = optim.Adam([nn.Parameter(torch.zeros(1))], lr=torch.tensor(0.2), foreach=False, capturable=False)
    rate = dst.param_groups[0]["lr"]
    tc.copy_(dst, src)
    assert dst.param_groups[0]["lr"] is rate
    assert float(rate) == float(torch.tensor(0.2))
    assert_apart([rate], [src.param_groups[0]["lr"]])


def test_lerp_moves_the_moments_and_leaves_the_options():
    (_, dst), (_, src) = training("Adam", 0), training("Adam", 1)
    expected = [torch.lerp(a, b, 0.5) for a, b in zip(tensors_of(dst), tensors_of(src), strict=True)]
    tc.lerp_(dst, src, 0.5)
    assert holds(dst, expected)
    assert dst.param_groups[0]["lr"] == 0.01
    assert_apart(dst, src)


def test_schedulers_go_by_their_state_dicts():
    (_, one), (_, other) = training("SGD", 0), training("SGD", 0)
    dst, src = optim.lr_scheduler.StepLR(one, 1), optim.lr_scheduler.StepLR(other, 1)
    other.step()
    src.step()
    state = dst.state_dict()
    tc.copy_(state, src.state_dict())
    assert state == src.state_dict()
    with pytest.raises(tc.InputError, match=r"dst\[1\]: expected a `StepLR`.*leave it out"):
        tc.copy_([torch.zeros(1), dst], [torch.ones(1), src])


@pytest.mark.parametrize(
    ("dst", "src", "match"),
    [
        pytest.param(
            lambda: training("Adam", 0)[1],
            lambda: training("Adam", 1, steps=0)[1],
            "state of 2 parameters, found state of 0 parameters.*take a step first",
            id="no steps in src",
        ),
        pytest.param(
            lambda: training("Adam", 0, steps=0)[1],
            lambda: training("Adam", 1)[1],
            "state of 0 parameters, found state of 2 parameters.*or use `load_state_dict`",
            id="no steps in dst",
        ),
        pytest.param(
            lambda: training("Adam", 0)[1],
            lambda: training("SGD", 1)[1],
            r"there is no src\.param_groups\[0\]\['betas'\]",
            id="another class",
        ),
        pytest.param(
            lambda: training("Adam", 0)[1],
            lambda: optim.Adam([nn.Parameter(torch.zeros(1))]),
            r"dst\.param_groups: expected 2 parameters in groups of \[2\]",
            id="other parameters",
        ),
        pytest.param(
            lambda: training("Adam", 0)[1], lambda: {"a": torch.zeros(1)}, r"is its `state_dict\(\)`", id="a dict"
        ),
        pytest.param(
            lambda: training("Adam", 0)[1], lambda: training("Adam", 1)[0], "expected a `Adam`", id="a module"
        ),
        pytest.param(
            lambda: {"a": torch.zeros(1)},
            lambda: training("Adam", 1)[1],
            r"is its `state_dict\(\)`",
            id="into a dict",
        ),
    ],
)
def test_optimizers_that_differ(dst, src, match):
    dst, src = dst(), src()
    before = flat(dst.state_dict()) if isinstance(dst, optim.Optimizer) else {}
    assert_refused(tc.copy_, dst, src, match=f"(?s){match}")
    after = flat(dst.state_dict()) if isinstance(dst, optim.Optimizer) else {}
    assert after.keys() == before.keys()
    assert all(after[k] is v or after[k] == v for k, v in before.items())
    with pytest.raises(tc.InputError, match="`lerp_` wrote nothing"):
        tc.lerp_({"o": dst, "t": torch.zeros(2)}, {"o": src, "t": torch.zeros(3)}, 0.5)
