"""The truth table against what PyTorch documents, written down by hand; and liars, which the probe must catch."""

import copy
import sys
import threading
import warnings

import pytest
import torch

from torchcopy import InputError
from torchcopy.semantics.catalogue import CopyMethod, find_methods
from torchcopy.semantics.probe import probe, truth_table
from torchcopy.semantics.sources import SOURCE_KINDS

Y, N = True, False

# On a non-leaf source that requires grad:
# requires_grad, graph, shares_memory, lazy, is_source, shares_version_counter, allocates (in sizes of the source)
NON_LEAF = {
    "assignment": (Y, Y, Y, N, Y, Y, 0),
    "copy.copy": (Y, N, Y, N, N, N, 0),
    "detach": (N, N, Y, N, N, Y, 0),
    "data": (N, N, Y, N, N, N, 0),
    "view": (Y, Y, Y, N, N, Y, 0),
    "clone": (Y, Y, N, N, N, N, 1),
    "detach_clone": (N, N, N, N, N, N, 1),
    "clone_detach": (N, N, N, N, N, N, 1),
    "empty_like_copy_": (Y, Y, N, N, N, N, 1),
    "tensor": (N, N, N, N, N, N, 1),
    "new_tensor": (N, N, N, N, N, N, 1),
    "tensor_requires_grad": (Y, N, N, N, N, N, 1),
    "new_tensor_requires_grad": (Y, N, N, N, N, N, 1),
    "deepcopy": None,  # raises
    "to": (Y, Y, Y, N, Y, Y, 0),
    "to_other_dtype": (Y, Y, N, N, N, N, 2),
    "to_copy": (Y, Y, N, N, N, N, 1),
    "contiguous": (Y, Y, Y, N, Y, Y, 0),
    "reshape": (Y, Y, Y, N, N, Y, 0),
    "asarray": (Y, Y, Y, N, Y, Y, 0),
    "asarray_copy": (Y, Y, N, N, N, N, 1),
    "numpy_roundtrip": (N, N, Y, N, N, N, 0),
    "lazy_clone": (Y, Y, N, Y, N, N, 0),
    "detach_lazy_clone": (N, N, N, Y, N, N, 0),
    "foreach_copy_": (N, N, N, N, N, N, 1),
    "state_dict_load": (N, N, N, N, N, N, 1),
    "tc.copy": (N, N, N, N, N, N, 1),
    "tc.fork": (N, N, N, Y, N, N, 0),
}

# `requires_grad` of the result from a leaf, where it differs from that of a non-leaf.
FROM_LEAF = {"deepcopy": True, "state_dict_load": True, "tc.copy": True, "tc.fork": True}

WARNS = {"tensor", "new_tensor", "tensor_requires_grad", "new_tensor_requires_grad", "asarray", "asarray_copy"}
KEEPS_ATTRIBUTES = {"assignment", "copy.copy", "deepcopy", "to", "contiguous", "asarray", "tc.copy", "tc.fork"}
KEEPS_GRAD = {"assignment", "deepcopy", "to", "contiguous", "asarray"}
KEEPS_PARAMETER = KEEPS_ATTRIBUTES | {"state_dict_load"}
COPIES_TRANSPOSED = {"contiguous"}  # beside those that always copy
KEEPS_STRIDE_0 = {
    "assignment", "copy.copy", "detach", "data", "view", "deepcopy", "to", "reshape", "asarray", "numpy_roundtrip",
    "lazy_clone", "detach_lazy_clone", "tc.copy", "tc.fork",
}  # fmt: skip


@pytest.fixture(scope="module")
def table():
    return {row.method.id: row for row in truth_table()}


def test_every_method_of_the_catalogue_has_an_expectation(table):
    assert set(table) == set(NON_LEAF)


@pytest.mark.parametrize("name", [name for name, expected in NON_LEAF.items() if expected is not None])
def test_non_leaf_source(table, name):
    facts = table[name].main
    ratio = round(facts.peak_bytes / facts.source_bytes, 2)
    seen = (
        facts.requires_grad, facts.graph, facts.shares_memory, facts.lazy, facts.is_source,
        facts.shares_version_counter, ratio,
    )  # fmt: skip
    assert facts.source == "non_leaf"
    assert seen == NON_LEAF[name]
    assert facts.gradient_correct is (True if facts.graph else None)
    assert facts.gradient_error is None
    assert facts.values_kept
    assert facts.special_values_kept
    assert not facts.source_changed
    assert facts.error is None


def test_deepcopy_of_a_non_leaf_raises_and_answers_nothing(table):
    facts = table["deepcopy"].main
    assert facts.error.startswith("RuntimeError: Only Tensors created explicitly by the user")
    assert facts.requires_grad is facts.graph is facts.shares_memory is None


@pytest.mark.parametrize("name", NON_LEAF)
def test_leaf_source(table, name):
    facts = table[name].on("leaf")
    requires_grad = FROM_LEAF.get(name, NON_LEAF[name] and NON_LEAF[name][0])
    assert facts.error is None
    assert facts.requires_grad is requires_grad
    assert facts.graph is bool(NON_LEAF[name] and NON_LEAF[name][1])


@pytest.mark.parametrize("name", NON_LEAF)
def test_warnings(table, name):
    facts = table[name].on("leaf")
    assert bool(facts.warnings) is (name in WARNS)
    if name in WARNS - {"asarray", "asarray_copy"}:
        assert "recommended to use sourceTensor.detach().clone()" in facts.warnings[0]


@pytest.mark.parametrize("name", NON_LEAF)
def test_attributes_grad_and_type(table, name):
    row = table[name]
    assert row.on("leaf").attributes_kept is (name in KEEPS_ATTRIBUTES)
    assert row.on("leaf").grad_kept is (name in KEEPS_GRAD)
    assert row.on("parameter").type_kept is (name in KEEPS_PARAMETER)
    assert row.on("no_grad").grad_kept is None


def test_deepcopy_of_a_parameter_loses_grad_and_attributes(table):
    facts = table["deepcopy"].on("parameter")
    assert (facts.grad_kept, facts.attributes_kept, facts.type_kept) == (False, False, True)


@pytest.mark.parametrize("name", NON_LEAF)
def test_layouts(table, name):
    row = table[name]
    # What shares memory with a contiguous source shares it with any, but for what has to make it contiguous.
    always = row.on("no_grad").shares_memory
    assert row.on("transposed").shares_memory is (always and name not in COPIES_TRANSPOSED)
    for kind in ("transposed", "channels_last", "slice"):
        assert row.on(kind).values_kept
        assert row.on(kind).memory_format_kept is (name != "contiguous" or kind == "slice")
    assert row.on("channels_last").strides_kept is (name != "contiguous")
    assert row.on("expanded").strides_kept is (name in KEEPS_STRIDE_0)


def test_a_small_slice_brings_its_storage_along_in_deepcopy_only(table):
    held = {name: table[name].on("slice").kept_bytes for name in NON_LEAF}
    source = table["clone"].on("slice").source_bytes
    assert held["deepcopy"] == 8 * source
    assert held["clone"] == held["detach_clone"] == held["to_copy"] == held["tc.copy"] == source


def test_an_expanded_tensor_is_copied_without_its_repetitions_by_tc_copy(table):
    kept = {name: table[name].on("expanded").kept_bytes for name in ("clone", "deepcopy", "tc.copy")}
    assert kept["tc.copy"] == kept["deepcopy"] < kept["clone"]


def test_tc_copy_keeps_what_deepcopy_of_a_parameter_loses(table):
    for name in ("tc.copy", "tc.fork"):
        facts = table[name].on("parameter")
        assert (facts.grad_kept, facts.attributes_kept, facts.type_kept) == (False, True, True)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "complex64", "float8_e5m2"])
def test_other_differentiable_dtypes_agree_with_float32(table, dtype):
    for name in ("detach", "clone", "detach_clone", "data", "empty_like_copy_", "to_copy"):
        other, facts = probe(name, dtype=dtype).main, table[name].main
        for field in ("requires_grad", "graph", "gradient_correct", "shares_memory", "values_kept"):
            assert getattr(other, field) == getattr(facts, field), (name, field)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "int16"])
def test_integers_have_no_grad_sources(dtype):
    row = probe("clone", dtype=dtype)
    assert [facts.source for facts in row.sources] == list(SOURCE_KINDS[3:])
    assert row.main.source == "no_grad"
    assert (row.main.requires_grad, row.main.graph, row.main.special_values_kept) == (False, False, None)
    assert row.main.values_kept


def test_numpy_has_no_bfloat16():
    assert "BFloat16" in probe("numpy_roundtrip", dtype="bfloat16").main.error


# --- liars ---------------------------------------------------------------------------------------------------


class _NoWayBack(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("no way back")


class _Narrowed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad.half().to(grad.dtype)


class _Reversed(_Narrowed):
    @staticmethod
    def backward(ctx, grad):
        return grad.flip(0)


def _read_only(t):
    array = t.detach().numpy()
    return torch.from_numpy(array)


_calls = []


def _fail_on_the_fourth_call(t):
    _calls.append(1)
    if len(_calls) == 4:
        raise ValueError("the fourth")
    return t.clone()


def _forget_nan(t):
    return t.nan_to_num()


def _warn_and_clone(t):
    torch.tensor(t)
    return t.clone()


def _write_to_the_source(t):
    with torch.no_grad():
        t.detach()[(0,) * t.dim()] += 1
    return t.clone()


def _hidden_write(t):
    t.data[(0,) * t.dim()] += 1
    return t.clone()


def _attribute(t):
    out = t.clone()
    out.__dict__.update(t.__dict__)
    return out


def _with_grad(t):
    out = t.detach().clone().requires_grad_(t.requires_grad)
    out.grad = None if not t.is_leaf or t.grad is None else t.grad.clone()
    return out


def _wrong_grad(t):
    out = t.detach().clone().requires_grad_(t.requires_grad)
    out.grad = None if not t.is_leaf or t.grad is None else t.grad + 1
    return out


# Each claims to be a `clone()`, which keeps the graph and owns its memory, and is not one in the named cell.
LIARS = {
    "requires_grad": (lambda t: t.detach().clone(), "requires_grad", False),
    "graph cut": (lambda t: t.detach().clone().requires_grad_(), "graph", False),
    "gradient doubled": (lambda t: t * 2 - t.detach(), "gradient_correct", False),
    "gradient halved by a view": (lambda t: (t + t.detach()) / 2, "gradient_correct", False),
    "backward raises": (_NoWayBack.apply, "gradient_error", "ValueError: no way back"),
    "a view": (lambda t: t.view(t.shape), "shares_memory", True),
    "`.data`": (lambda t: t.data, "shares_memory", True),
    "the counter is the source's": (lambda t: t.detach(), "shares_version_counter", True),
    "the source itself": (lambda t: t, "is_source", True),
    "lazy": (torch._lazy_clone, "lazy", True),
    "other values": (lambda t: t + 1, "values_kept", False),
    "one value off": (lambda t: t.index_fill(0, torch.tensor([5]), 9.0), "values_kept", False),
    "other shape": (lambda t: t.clone()[:60], "values_kept", False),
    "meta": (lambda t: t.to("meta"), "values_kept", False),
    "meta is another device": (lambda t: t.to("meta"), "device_kept", False),
    "NaN becomes 0": (_forget_nan, "special_values_kept", False),
    "infinity is clamped": (lambda t: t.clamp(max=1e30), "special_values_kept", False),
    "dtype": (lambda t: t.double(), "dtype_kept", False),
    "strides": (lambda t: t.repeat_interleave(2)[::2], "strides_kept", False),
    "through half precision": (lambda t: t.half().to(t.dtype), "values_kept", False),
    "gradient through half precision": (lambda t: _Narrowed.apply(t), "gradient_correct", False),
    "through bfloat16": (lambda t: t.bfloat16().to(t.dtype), "values_kept", False),
    "absolute values": (lambda t: t.abs(), "values_kept", False),
    "negative gradient": (lambda t: 2 * t.detach() - t, "gradient_correct", False),
    "gradient reversed": (lambda t: _Reversed.apply(t), "gradient_correct", False),
    "one dimension more": (lambda t: t.clone()[None], "values_kept", False),
    "all NaN where one was": (lambda t: torch.full_like(t, t.sum().item()), "special_values_kept", False),
    "infinity for NaN": (lambda t: torch.where(t.isnan(), torch.inf, t), "special_values_kept", False),
    "-inf becomes inf": (lambda t: torch.where(t.isinf(), torch.inf, t), "special_values_kept", False),
    "writes nothing, and says so": (lambda t: t.detach().add_(0).clone(), "source_changed", True),
    "read-only numpy view": (lambda t: _read_only(t), "shares_memory", True),
    "holds two": (lambda t: [t.clone(), t.clone()][0], "peak_bytes", 2 * 16384),
    "exits": (lambda t: sys.exit(3), "error", "SystemExit: 3"),
    "fails later": (lambda t: _fail_on_the_fourth_call(t), "error", "cannot be observed: ValueError: the fourth"),
    "attributes": (_attribute, "attributes_kept", True),
    "warns": (_warn_and_clone, "warnings", None),
    "raises": (copy.deepcopy, "error", None),
    "allocates twice": (lambda t: t.clone().clone(), "allocated_bytes", 2 * 16384),
    "writes to its source": (_write_to_the_source, "source_changed", True),
    "writes to its source unseen": (_hidden_write, "source_changed", True),
    "sets requires_grad off": (lambda t: t.clone().requires_grad_(False) if t.is_leaf else t.detach(),
                               "requires_grad", False),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIARS)
def test_a_method_that_lies_about_a_cell_is_caught(lie, table):
    run, field, seen = LIARS[lie]
    honest = getattr(table["clone"].main, field)
    found = getattr(probe(CopyMethod("liar", "t.clone()", run)).main, field)
    assert found != honest
    if seen is None:
        assert found
    else:
        assert found == seen


def test_grad_must_be_the_same_grad():
    assert probe(CopyMethod("a", "a", _with_grad)).on("leaf").grad_kept is True
    assert probe(CopyMethod("b", "b", _wrong_grad)).on("leaf").grad_kept is False


def test_memory_format_and_type_liars():
    flat = probe(CopyMethod("a", "a", lambda t: t.clone(memory_format=torch.contiguous_format)))
    assert flat.on("channels_last").memory_format_kept is False
    assert flat.on("leaf").type_kept is True
    assert probe(CopyMethod("b", "b", lambda t: t.clone())).on("parameter").type_kept is False


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda t: None, "it returned NoneType, not a plain tensor"),
        (lambda t: [t], "it returned list, not a plain tensor"),
        (lambda t: torch.nested.nested_tensor([t.detach()]), "it returned a nested tensor, not a plain tensor"),
        (lambda t: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
    ids=["nothing", "a list", "nested", "raises"],
)
def test_what_is_no_tensor_is_an_error_of_the_method(run, message):
    assert probe(CopyMethod("bad", "bad", run)).main.error == message


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
@pytest.mark.parametrize(
    "run",
    [
        lambda t: t.detach().to_sparse(),
        lambda t: t.detach().to_mkldnn(),
        lambda t: torch.quantize_per_tensor(t.detach(), 0.25, 0, torch.quint8),
        lambda t: t.new_empty(0),
    ],
    ids=["sparse", "mkldnn", "quantized", "empty"],
)
def test_unusual_results_are_answered(run):
    facts = probe(CopyMethod("odd", "odd", run)).main
    assert facts.error is None
    assert facts.shares_memory is False
    assert facts.strides_kept is False or facts.values_kept is not True or facts.dtype_kept is False


def test_the_probe_measures_and_never_looks_up():
    # Under a trusted name, with trusted code, a method that does something else is seen to do it.
    fake = CopyMethod("clone", "t.clone()", lambda t: t.detach())
    facts = probe(fake).main
    assert (facts.graph, facts.shares_memory) == (False, True)
    assert probe("clone").main.graph is True
    assert fake not in find_methods()


# Widths that a copy must not go through, for each dtype.
NARROWER = {
    "float64": "float32", "float32": "float16", "float16": "bfloat16", "bfloat16": "float16",
    "complex128": "complex64", "int64": "float64", "int32": "int16", "int16": "int8", "uint8": "int8",
}  # fmt: skip


@pytest.mark.parametrize("dtype", NARROWER)
def test_a_copy_through_a_narrower_dtype_is_caught(dtype):
    through = getattr(torch, NARROWER[dtype])
    facts = probe(CopyMethod("narrow", "narrow(t)", lambda t: t.detach().to(through).to(t.dtype)), dtype=dtype)
    if dtype == "uint8":  # int8 wraps around and back
        through_bool = CopyMethod("narrow", "narrow(t)", lambda t: t.bool().to(t.dtype))
        facts = probe(through_bool, dtype=dtype)
    assert facts.main.values_kept is False
    assert probe("detach_clone", dtype=dtype).main.values_kept is True


def test_two_warnings_of_other_kinds_are_both_reported():
    def run(t):
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        warnings.warn("odd", UserWarning, stacklevel=1)
        return t.clone()

    assert probe(CopyMethod("w", "w", run)).main.warnings == ("DeprecationWarning: old", "UserWarning: odd")


def _answers():
    names = ("clone", "detach", "data", "tensor", "asarray", "lazy_clone")
    return [(r.main.requires_grad, r.main.graph, r.main.shares_memory, r.main.error) for r in truth_table(names)]


@pytest.mark.parametrize(
    "mode",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.device("meta"),
        lambda: torch.autocast("cpu"),
        lambda: torch._subclasses.FakeTensorMode(),
    ],
    ids=["no_grad", "inference_mode", "device", "autocast", "fake"],
)
def test_the_callers_modes_change_no_answer(mode):
    expected = _answers()
    with mode():
        assert _answers() == expected


def test_the_default_dtype_is_put_back_whoever_changes_it():
    torch.set_default_dtype(torch.float64)
    try:
        probe(CopyMethod("d", "d", lambda t: (torch.set_default_dtype(torch.float16), t.clone())[1]))
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_probing_on_several_threads_at_once():
    expected, found = _answers(), []
    threads = [threading.Thread(target=lambda: found.extend(_answers() for _ in range(5))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 15


def test_a_kind_that_was_not_probed_is_refused():
    with pytest.raises(InputError, match="'clone' was not probed on 'leaf' as int64"):
        probe("clone", dtype="int64").on("leaf")
    with pytest.raises(InputError, match="methods are a list of names"):
        truth_table(5)
    assert truth_table([find_methods(["clone"])[0]])[0].method.id == "clone"
