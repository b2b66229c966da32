import copy

import pytest
import torch
from torch import nn

from torchcopy._errors import InputError
from torchcopy.bench.models import MODEL_METHODS, bench_model, find_model_methods
from torchcopy.bench.records import BenchReport


class Tied(nn.Module):
    """Two names for one weight, and a buffer of another dtype."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(10, 8), nn.Linear(8, 10, bias=False)
        self.head.weight = self.words.weight
        self.register_buffer("count", torch.zeros(3, dtype=torch.int64))


class Undeepcopyable(nn.Module):
    """Holds a result of an operation, as weight_norm once did."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.cached = self.weight * 2


def by_method(report):
    return {m.method: m for m in report.measurements}


def test_every_way_to_copy_a_model():
    report = bench_model(lambda: nn.Linear(64, 32), max_seconds=10)
    assert (report.kind, report.subject, report.dtype) == ("model", "Linear", "float32")
    rows = by_method(report)
    assert list(rows) == [method.id for method in MODEL_METHODS]
    for m in rows.values():
        assert m.error is None, m
        assert m.timing is not None, m
        assert (m.tensors, m.numel, m.bytes) == (2, 64 * 32 + 32, 4 * (64 * 32 + 32))
    lazy = {name for name, m in rows.items() if m.memory != "own"}
    assert lazy == {"lazy_clones", "tc_fork_model"}
    assert all((rows[name].memory, rows[name].data_ptr_differs) == ("lazy", False) for name in lazy)
    assert all(m.data_ptr_differs for m in rows.values() if m.is_copy)
    peaks = {name: m.allocation.peak_bytes for name, m in rows.items()}
    assert peaks["foreach_copy_"] == peaks["lazy_clones"] == peaks["tc_fork_model"] == 0
    assert peaks["tc_copy_into_model"] == peaks["tc_lerp_into_model"] == 0
    wanted = report.measurements[0].bytes
    assert peaks["clone_dict"] == peaks["deepcopy_model"] == peaks["tc_copy_model"] == wanted
    assert peaks["tc_copy_state_dict"] == wanted
    assert BenchReport.from_dict(report.to_dict()) == report


def test_tied_weights_count_once():
    report = bench_model(Tied, ["clone_dict", "deepcopy_state_dict"], max_seconds=1)
    assert report.subject == "Tied"
    assert report.dtype == "float32, int64"
    clones, deepcopy = report.measurements
    assert (clones.tensors, clones.bytes) == (2, 10 * 8 * 4 + 3 * 8)
    # A dict of clones copies the tied weight twice, deepcopy does not.
    assert clones.allocation.kept_bytes == deepcopy.allocation.kept_bytes + 10 * 8 * 4


def test_a_module_of_yours_is_left_alone():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).train()
    model(torch.randn(8, 4)).sum().backward()
    before = copy.deepcopy(model)
    grads = [p.grad.clone() for p in model.parameters()]
    versions = [t._version for t in model.state_dict(keep_vars=True).values()]
    addresses = [t.data_ptr() for t in model.state_dict().values()]
    report = bench_model(model, max_seconds=10)
    assert by_method(report)["load_state_dict"].error == (
        "TypeError: it needs a factory that makes a new module: pass `factory=`"
    )
    assert all(
        torch.equal(a, b) for a, b in zip(model.state_dict().values(), before.state_dict().values(), strict=True)
    )
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), grads, strict=True))
    assert versions == [t._version for t in model.state_dict(keep_vars=True).values()]
    assert addresses == [t.data_ptr() for t in model.state_dict().values()]
    assert model.training


def test_a_module_of_yours_keeps_the_memory_that_a_numpy_view_shares():
    model = nn.Linear(4, 4)
    older = model.weight.detach().numpy()
    bench_model(model, ["tc_fork_model", "foreach_copy_"], max_seconds=0.5)
    with torch.no_grad():
        model.weight.fill_(3.0)
    assert (older == 3.0).all()


def test_a_module_with_its_factory():
    report = bench_model(nn.Linear(4, 4), ["load_state_dict"], factory=lambda: nn.Linear(4, 4), max_seconds=1)
    assert report.measurements[0].timing is not None


def test_a_model_that_cannot_be_deep_copied_is_shown_so():
    report = bench_model(Undeepcopyable, ["deepcopy_model", "clone_dict"], max_seconds=1)
    deepcopy, clones = report.measurements
    assert deepcopy.error.startswith("RuntimeError: Only Tensors created explicitly")
    assert clones.timing is not None


def test_the_random_state_is_put_back():
    torch.manual_seed(3)
    wanted = torch.rand(1)
    torch.manual_seed(3)
    bench_model(lambda: nn.Linear(4, 4), max_seconds=1)
    assert torch.equal(torch.rand(1), wanted)


def test_device_and_dtype_are_the_factorys():
    report = bench_model(lambda: nn.Linear(4, 4), ["clone_dict"], device="cpu", dtype="bfloat16", max_seconds=1)
    assert (report.device, report.dtype) == ("cpu", "bfloat16")


def fails():
    raise OSError("no weights here\nand more")


def meta():
    with torch.device("meta"):
        return nn.Linear(2, 2)


def half_sparse():
    model = nn.Linear(2, 2)
    model.register_buffer("sparse", torch.ones(2).to_sparse())
    return model


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((fails,), {}, r"'fails': the factory failed \(OSError: no weights here\); it must take no arguments"),
        ((lambda x: nn.Linear(2, 2),), {}, "missing 1 required positional argument"),
        ((lambda: 3,), {}, "the factory returned int, not an `nn.Module`"),
        ((lambda: nn.Linear,), {}, "the factory returned type"),
        ((nn.ReLU,), {}, "'ReLU' has neither parameters nor buffers"),
        ((lambda: nn.ParameterList([torch.empty(0)]),), {}, "neither parameters nor buffers"),
        ((lambda: nn.LazyLinear(2),), {}, "`weight` is not initialised yet"),
        ((meta,), {}, "`weight` .* has no dense values to copy"),
        ((meta,), {"device": "cpu"}, "cannot be put on cpu"),
        ((half_sparse,), {}, "`sparse` .* has no dense values"),
        ((3,), {}, "got int"),
        (("nowhere",), {}, "must read PACKAGE.MODULE:NAME"),
        (("no_such_module:build",), {}, "importing 'no_such_module' failed"),
        (("torch.nn:Linnear",), {}, "has no attribute 'Linnear'"),
        (("torch.nn:Linear",), {}, "the factory failed"),
        ((nn.Linear(2, 2),), {"device": "cpu"}, "measured where it is"),
        ((nn.ReLU,), {"factory": nn.ReLU}, "is a factory already"),
        ((nn.ReLU,), {"dtype": "int8"}, "cannot be made int8"),
        ((nn.ReLU,), {"device": "cuda:99"}, "not at hand"),
        ((nn.ReLU, ["deepcopy"]), {}, "did you mean 'deepcopy_model'"),
        ((nn.ReLU, ["zzz"]), {}, "there are deepcopy_model"),
        ((nn.ReLU, []), {}, "no method is left"),
        ((nn.ReLU,), {"max_seconds": -1}, "positive number"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(monkeypatch, arguments, options, message):
    monkeypatch.setattr("torchcopy.bench.models.run_cases", None)
    with pytest.raises(InputError, match=message) as caught:
        bench_model(*arguments, **options)
    assert "\n" not in str(caught.value)


def test_a_factory_that_exits_is_refused():
    def exits():
        raise SystemExit(3)

    with pytest.raises(InputError, match="the factory failed"):
        bench_model(exits)


def test_a_model_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr("torchcopy.bench.preflight.free_memory_bytes", lambda device: 1000)
    monkeypatch.setattr("torchcopy.bench.models.run_cases", None)
    with pytest.raises(InputError, match=r"in every way needs 1\.24 kB at its peak"):
        bench_model(lambda: nn.Linear(103, 1, bias=False))


def test_an_old_report_of_another_model_is_refused(monkeypatch):
    old = bench_model(nn.Linear(4, 4), ["clone_dict"], max_seconds=0.5)
    monkeypatch.setattr("torchcopy.bench.models.run_cases", None)
    with pytest.raises(InputError, match="measured model 'Linear', this bench 'Tied'"):
        bench_model(Tied, against=old)
    with pytest.raises(InputError, match="in common"):
        bench_model(nn.Linear(4, 5), against=old)


def test_methods_are_found_once():
    assert [method.id for method in find_model_methods(["clone_dict", "clone_dict"])] == ["clone_dict"]
    assert find_model_methods("clone_dict") == find_model_methods(["clone_dict"])
    assert find_model_methods() == MODEL_METHODS
