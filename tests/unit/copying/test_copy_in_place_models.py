"""`copy_` and `lerp_` between modules, state_dicts and optimizers."""

import pytest
import torch
from in_place_checks import assert_apart, assert_copied, assert_refused, holds, values_of
from torch import nn
from torch.nn.utils import parametrizations, prune

import torchcopy as tc


def network(seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))
    with torch.no_grad():
        for k, t in enumerate(model.state_dict().values()):
            t.add_(seed + k)
    return model


# --- modules and state_dicts ---------------------------------------------------------------------------------


def test_parameters_and_buffers_of_two_modules():
    dst, src = network(), network(7)
    assert_copied(dst, src)
    assert all(p.requires_grad and p.grad is None for p in dst.parameters())


SIDES = {
    "module": lambda model: model,
    "state_dict": lambda model: model.state_dict(),
    "compiled": lambda model: torch.compile(model),
    "state_dict of compiled": lambda model: torch.compile(model).state_dict(),
    "partly compiled": lambda model: nn.Sequential(torch.compile(model[0]), *model[1:]),
    "state_dict of partly compiled": lambda model: nn.Sequential(torch.compile(model[0]), *model[1:]).state_dict(),
    "plain dict": lambda model: {name: t.detach() for name, t in reversed(model.state_dict().items())},
}


@pytest.mark.parametrize(
    ("of_dst", "of_src"),
    [(d, s) for d in SIDES for s in SIDES if "dict" not in d or "dict" not in s] + [("plain dict", "state_dict")],
)
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")  # by the import of the compiler
def test_every_form_of_a_model_goes_into_every_other(of_dst, of_src):
    dst, src, of_dst, of_src = network(), network(7), SIDES[of_dst], SIDES[of_src]
    into, expected = of_dst(dst), values_of(src)
    assert tc.copy_(into, of_src(src)) is into
    assert holds(dst, expected)
    tc.lerp_(into, of_src(src), 0.5)
    assert holds(dst, expected)
    assert_apart(dst, src)


class Extras(nn.Module):
    """Buffers of every sort, and what `get_extra_state` gives."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))
        self.register_buffer("kept", torch.zeros(2))
        self.register_buffer("passing", torch.zeros(2), persistent=False)
        self.register_buffer("absent", None)
        self.register_parameter("none", None)
        self.calls = 0

    def get_extra_state(self):
        return {"calls": self.calls}

    def set_extra_state(self, state):
        raise AssertionError("`copy_` calls nothing of a module")


def filled(value):
    model = Extras()
    with torch.no_grad():
        for t in (model.weight, model.kept, model.passing):
            t.fill_(value)
    model.calls = value
    return model


def test_buffers_that_are_not_persistent():
    dst, src = filled(0), filled(3)
    assert_copied(dst, src)
    assert dst.calls == 0, "nothing but parameters and buffers of a module is copied"
    dst, src = filled(0), filled(3)
    tc.copy_(dst, src.state_dict())
    assert [t.tolist()[0] for t in (dst.weight, dst.kept, dst.passing)] == [3, 3, 0]
    state = filled(0).state_dict()
    tc.copy_(state, src)
    assert state["kept"].tolist() == [3, 3]
    assert state["_extra_state"] == {"calls": 0}
    tc.copy_(dst, {"weight": torch.ones(2), "kept": torch.ones(2), "passing": torch.full((2,), 9.0)})
    assert dst.passing.tolist() == [9, 9]
    assert_apart(dst, src)


def test_counters_of_batch_norm():
    dst, src = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    src(torch.randn(8, 2))
    src(torch.randn(8, 2))
    tc.copy_(dst, src)
    assert int(dst.num_batches_tracked) == 2
    src(torch.randn(8, 2))
    assert int(dst.num_batches_tracked) == 2
    tc.lerp_(dst, src, 0.01)
    assert int(dst.num_batches_tracked) == 3, "a counter does not lie between"
    assert_apart(dst, src)


def tied(seed):
    torch.manual_seed(seed)
    embedding, head = nn.Embedding(3, 2), nn.Linear(2, 3, bias=False)
    head.weight = embedding.weight
    return nn.ModuleDict({"embedding": embedding, "head": head})


def test_tied_weights():
    dst, src = tied(0), tied(1)
    assert_copied(dst, src)
    assert dst.embedding.weight is dst.head.weight
    dst, src = tied(0), tied(1)
    expected = torch.lerp(dst.head.weight, src.head.weight, 0.25).detach()
    tc.lerp_(dst, src, 0.25)
    assert torch.equal(dst.head.weight, expected), "a tied weight moves once"
    assert_apart(dst, src)


def test_tied_weights_beside_untied_ones():
    loose = nn.ModuleDict({"embedding": nn.Embedding(3, 2), "head": nn.Linear(2, 3, bias=False)})
    message = assert_refused(tc.copy_, tied(0), loose, match="tie them in src too")
    assert "dst.head.weight: expected the values of src.embedding.weight" in message
    assert_refused(tc.lerp_, tied(0), loose, 0.5, match="tie them in src too")
    assert_copied(loose, tied(1))
    assert loose.embedding.weight is not loose.head.weight


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: nn.LSTM(2, 3, 2), id="LSTM"),
        pytest.param(lambda: parametrizations.weight_norm(nn.Linear(2, 3)), id="weight_norm"),
        pytest.param(lambda: parametrizations.spectral_norm(nn.Linear(2, 3)), id="spectral_norm"),
        pytest.param(lambda: prune.random_unstructured(nn.Linear(2, 3), "weight", 0.5), id="pruned"),
        pytest.param(lambda: nn.MultiheadAttention(4, 2), id="attention"),
        pytest.param(lambda: nn.Linear(2, 3, bias=False), id="without bias"),
        pytest.param(lambda: nn.BatchNorm1d(2, affine=False), id="buffers only"),
        pytest.param(
            lambda: nn.Sequential(nn.Linear(2, 2, dtype=torch.bfloat16), nn.Linear(2, 2)), id="two dtypes"
        ),
        pytest.param(lambda: nn.ReLU(), id="nothing at all"),
        pytest.param(lambda: nn.Sequential(), id="empty"),
        pytest.param(lambda: nn.ModuleList([nn.ModuleList(), nn.Linear(1, 1)]), id="an empty list inside"),
    ],
)
def test_modules_of_other_kinds(build):
    assert_copied(build(), build())


def test_a_module_whose_truth_cannot_be_asked():
    class Awkward(nn.Linear):
        def __len__(self):
            raise TypeError("no length")

    assert_copied(nn.Sequential(Awkward(2, 2)), nn.Sequential(Awkward(2, 2)))


def test_a_module_that_holds_itself():
    def build():
        model = nn.Sequential(nn.Linear(1, 1))
        model[0].owner = model
        return model

    dst, src = build(), build()
    tc.copy_(dst, src)
    assert torch.equal(dst[0].weight, src[0].weight)
    assert_apart([dst[0].weight], [src[0].weight])


def test_a_moving_average_of_lower_precision():
    dst, src = nn.Linear(2, 2), nn.Linear(2, 2, dtype=torch.bfloat16)
    expected = torch.lerp(dst.weight, src.weight.float(), 0.1).detach()
    tc.lerp_(dst, src, 0.1)
    assert torch.equal(dst.weight, expected)
    assert_apart(dst, src)


def test_the_gradient_stays():
    dst, src = nn.Linear(2, 1), nn.Linear(2, 1)
    dst(torch.ones(2)).sum().backward()
    tc.copy_(dst, src)
    assert dst.weight.grad.tolist() == [[1, 1]]
    assert src.weight.grad is None


WRAPPED = {
    "src": (lambda: nn.Linear(2, 2), lambda: nn.DataParallel(nn.Linear(2, 2)), r"src: .*give `src\.module`"),
    "dst": (lambda: nn.DataParallel(nn.Linear(2, 2)), lambda: nn.Linear(2, 2), r"dst: .*give `dst\.module`"),
    "src, a state_dict": (
        lambda: nn.Linear(2, 2),
        lambda: nn.DataParallel(nn.Linear(2, 2)).state_dict(),
        "src: its names begin with 'module.', .*take the prefix off",
    ),
}


@pytest.mark.parametrize(("dst", "src", "match"), WRAPPED.values(), ids=WRAPPED)
def test_a_wrapper_is_told_in_one_line(dst, src, match):
    assert "\n" not in assert_refused(tc.copy_, dst(), src(), match=match)


@pytest.mark.parametrize(
    ("dst", "src", "match"),
    [
        pytest.param(lambda: nn.Linear(2, 3), lambda: nn.Linear(3, 3), r"^`copy_` .*dst\.weight: ", id="shape"),
        pytest.param(lambda: nn.Linear(2, 3), lambda: nn.Linear(2, 3, bias=False), r"dst\.bias: .*None", id="bias"),
        pytest.param(
            lambda: nn.Linear(2, 3, bias=False), lambda: nn.Linear(2, 3), r"dst\.bias: .*None", id="no bias"
        ),
        pytest.param(network, lambda: network()[:2], r"there is no src\.3\.weight", id="fewer layers"),
        pytest.param(lambda: network()[:2], network, r"there is no dst\.3\.weight", id="more layers"),
        pytest.param(
            lambda: nn.Linear(2, 3),
            lambda: {"weight": torch.zeros(3, 2)},
            r"found nothing at src\['bias'\]: there is no src\['bias'\]|found nothing.*there is no src\['bias'\]",
            id="missing name",
        ),
        pytest.param(
            lambda: nn.Linear(2, 3),
            lambda: {**nn.Linear(2, 3).state_dict(), "more": torch.zeros(1)},
            r"src\['more'\]: expected nothing, .*there is no dst\.more",
            id="surplus name",
        ),
        pytest.param(
            lambda: nn.Linear(2, 2), lambda: [torch.zeros(2, 2)], "expected a `Linear`", id="module, list"
        ),
        pytest.param(
            lambda: nn.Linear(2, 2), lambda: torch.zeros(2, 2), "expected a `Linear`", id="module, tensor"
        ),
    ],
)
def test_modules_that_differ(dst, src, match):
    assert_refused(tc.copy_, dst(), src(), match=f"(?s){match}")
    assert_refused(tc.lerp_, dst(), src(), 0.5, match=f"(?s){match.replace('copy_', 'lerp_')}")


def test_an_uninitialised_module():
    ready = nn.Linear(2, 3)
    before = values_of(ready)
    for dst, src in ((nn.LazyLinear(3), ready), (ready, nn.LazyLinear(3)), (nn.LazyLinear(3), nn.LazyLinear(3))):
        with pytest.raises(tc.InputError, match="run the lazy module once first"):
            tc.copy_(dst, src)
    assert holds(ready, before)
    lazy = nn.LazyLinear(3)
    lazy(torch.zeros(1, 2))
    assert_copied(lazy, ready)
