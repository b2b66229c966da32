import pytest
import torch
from torch import nn

from torchcopy import register_method, unregister_method
from torchcopy._errors import InputError
from torchcopy._torch_private import is_lazy
from torchcopy.bench import preflight
from torchcopy.bench.limit import list_limit, tensor_limit
from torchcopy.bench.records import BenchReport
from torchcopy.bench.tensors import bench_tensor_values, bench_tensors, lean_source, look_at_tensor
from torchcopy.semantics.catalogue import find_methods
from torchcopy.semantics.sources import DTYPES, SOURCE_KINDS, available_kinds, build_source

CPU = torch.device("cpu")


def shape_of(t):
    """All of a source but its values."""
    storage = t.untyped_storage().nbytes()
    return t.shape, t.stride(), t.storage_offset(), t.dtype, t.requires_grad, t.is_leaf, type(t), storage


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (kind, dtype)
        for dtype in ("float32", "bfloat16", "float8_e4m3fn", "complex64", "int64", "bool")
        for kind in available_kinds(DTYPES[dtype])
    ],
)
def test_lean_sources_are_like_those_of_the_probe(kind, dtype):
    for numel in (1, 7, 96, 1000):
        wanted = {"numel": numel, "device": CPU, "dtype": DTYPES[dtype]}
        assert shape_of(lean_source(kind, **wanted)) == shape_of(build_source(kind, **wanted).tensor)


def test_a_non_leaf_source_holds_nothing_but_itself():
    source = lean_source("non_leaf", numel=1000, device=CPU, dtype=torch.float32)
    node = source.grad_fn
    while node.next_functions:
        node = node.next_functions[0][0]
    assert node.variable.numel() == 1


LOOKS = {
    "assignment": (False, "share"),
    "view": (False, "share"),
    "data": (False, "share"),
    "numpy_roundtrip": (False, "share"),
    "lazy_clone": (False, "lazy"),
    "detach_lazy_clone": (False, "lazy"),
    "clone": (True, "own"),
    "deepcopy": (True, "own"),
    "to_other_dtype": (True, "own"),
    "state_dict_load": (True, "own"),
}


@pytest.mark.parametrize("name", LOOKS)
def test_whose_memory_a_result_has(name):
    source = torch.arange(12.0)
    (entry,) = find_methods([name])
    result = entry.run(source)
    assert look_at_tensor(source, result) == LOOKS[name]
    # The truth by writing: the look has left a lazy clone lazy.
    assert is_lazy(result) is (LOOKS[name][1] == "lazy")
    result.fill_(7)
    assert bool((source == 7).all()) is (LOOKS[name][1] == "share")


def test_views_of_a_lazy_source_are_shared_not_lazy():
    source = torch.arange(12.0)
    lazy = torch._lazy_clone(source)
    assert look_at_tensor(source, source.view(3, 4)) == (False, "share")
    assert look_at_tensor(source, lazy) == (False, "lazy")


def test_a_part_of_the_source_is_shared_at_another_address():
    source = torch.arange(12.0)
    assert look_at_tensor(source, source[4:]) == (True, "share")
    assert look_at_tensor(source[:4], source[4:]) == (True, "own")


def test_what_is_no_tensor_is_no_copy():
    with pytest.raises(TypeError, match="it returned list, not a tensor"):
        look_at_tensor(torch.ones(2), [1])


@pytest.mark.parametrize("kind", SOURCE_KINDS)
def test_the_limit_fills_a_buffer_like_the_source(kind):
    source = lean_source(kind, numel=96, device=CPU, dtype=torch.float32)
    before, values = source._version, source.detach().clone()
    buffer = tensor_limit(source)()
    assert torch.equal(buffer, source)
    assert not buffer.requires_grad
    assert look_at_tensor(source, buffer) == (True, "own")
    with torch.no_grad():
        buffer.zero_()
    assert torch.equal(source, values)
    assert source._version == before


def test_the_limit_of_a_list_moves_as_many_bytes():
    tensors = [torch.ones(3), torch.ones(5, dtype=torch.int8), torch.ones(0)]
    assert list_limit(tensors)().numel() == 17


def test_memory_of_every_method_in_the_catalogue():
    report = bench_tensors(sizes=[4096], max_seconds=1)
    peaks = {m.method: m.allocation.peak_bytes for m in report.measurements}
    for m in report.measurements:
        assert m.error is None, m
        assert m.memory is not None
        assert (m.allocation.kept_bytes >= m.bytes) is m.is_copy, m
        assert m.data_ptr_differs is m.is_copy
    assert peaks["clone"] == peaks["detach_clone"] == 4096 * 4
    assert peaks["to_other_dtype"] == 4096 * 8
    assert peaks["detach"] == peaks["lazy_clone"] == 0
    assert [m.method for m in report.measurements] == [entry.id for entry in find_methods()]


def test_the_report_survives_json():
    report = bench_tensors(
        ["clone", "detach"], sizes=["2^0..2^3", 4096], sources=["no_grad", "slice"], max_seconds=1
    )
    assert BenchReport.from_dict(report.to_dict()) == report
    assert report.sizes == (1, 2, 4, 8, 4096)
    assert len(report.measurements) == 2 * 5 * 2


def test_what_raises_on_a_source_is_shown():
    report = bench_tensors(["deepcopy", "clone"], sizes=[16], sources=["non_leaf"], max_seconds=1)
    deepcopy, clone = report.measurements
    assert deepcopy.error.startswith("RuntimeError: Only Tensors created explicitly")
    assert (deepcopy.timing, deepcopy.skipped) == (None, None)
    assert clone.timing is not None


def test_warnings_of_torch_are_in_the_record_only(capfd):
    (m,) = bench_tensors(["tensor"], sizes=[16], max_seconds=1).measurements  # warnings are errors here
    assert m.error is None
    assert m.warnings[0].startswith("UserWarning: To copy construct from a tensor")
    assert capfd.readouterr() == ("", "")


def test_a_slice_is_copied_alone_and_deepcopy_takes_all_of_it():
    report = bench_tensors(["clone", "deepcopy"], sizes=[1000], sources=["slice"], max_seconds=1)
    peaks = [m.allocation.peak_bytes for m in report.measurements]
    assert peaks == pytest.approx([4000, 8 * 4000], rel=0.01)  # and what `deepcopy` needs on its way
    assert [m.bytes for m in report.measurements] == [4000, 4000]


def test_methods_of_your_own_are_measured():
    register_method("double", lambda t: torch.cat([t, t]))
    try:
        (m,) = bench_tensors(["double"], sizes=[64], max_seconds=1).measurements
    finally:
        unregister_method("double")
    assert (m.memory, m.allocation.peak_bytes) == ("own", 512)


def test_the_graph_of_a_source_does_not_grow():
    grown = []

    def look(t):
        copied = t.clone()
        grown.append((t.grad_fn.next_functions[0][0].name(), copied.grad_fn.next_functions[0][0] is t.grad_fn))
        return copied

    register_method("look", look)
    try:
        bench_tensors(["look"], sizes=[64], sources=["non_leaf"], max_seconds=0.5)
    finally:
        unregister_method("look")
    assert len(set(grown)) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["clne"]}, "did you mean 'clone'"),
        ({"methods": ["no_such_module:f"]}, "importing 'no_such_module' failed"),
        ({"sizes": ["0"]}, "at least 1"),
        ({"sizes": ["2^60"]}, "the largest power of two that fits is 2\\^"),
        ({"sizes": [2**62], "dtype": "int8"}, "is free on cpu"),
        ({"device": "cuda:99"}, "not at hand"),
        ({"device": "meta"}, "holds no values"),
        ({"dtype": "float33"}, "there is no dtype"),
        ({"sources": ["leaf"], "dtype": "int64"}, "cannot require grad"),
        ({"sources": ["flat"]}, "there is no source kind"),
        ({"sources": []}, "no source is left"),
        ({"max_seconds": 0}, "positive number of seconds"),
    ],
    ids=str,
)
def test_bad_input_is_refused_before_anything_runs(monkeypatch, options, message):
    monkeypatch.setattr("torchcopy.bench.tensors.run_cases", None)
    with pytest.raises(InputError, match=message) as caught:
        bench_tensors(**options)
    assert "\n" not in str(caught.value)


def test_memory_counts_what_the_methods_need(monkeypatch):
    monkeypatch.setattr("torchcopy.bench.tensors.run_cases", None)
    for module in ("torchcopy.bench.tensors", "torchcopy.bench.preflight"):
        monkeypatch.setattr(f"{module}.free_memory_bytes", lambda device: 100_000)
    with pytest.raises(InputError, match=r"needs 90\.3 kB"):  # source, and a deepcopy of all its storage
        bench_tensors(["deepcopy"], sizes=[1411], sources=["slice"])
    with pytest.raises(InputError, match="fits is 2\\^13"):  # bool to int64: one and eight bytes an element
        bench_tensors(["to_other_dtype"], sizes=[100_000], dtype="bool")
    assert preflight.free_memory_bytes(CPU) == 100_000


def test_values_of_your_own_are_measured_and_left_alone():
    weight, batch = nn.Parameter(torch.randn(20, 30)), torch.randn(4, 3, 8, 8).to(memory_format=torch.channels_last)
    kept = [(t.detach().clone(), t._version, t.data_ptr()) for t in (weight, batch)]
    report = bench_tensor_values({"weight": weight, "batch": batch}, max_seconds=1)
    assert (report.kind, report.sources) == ("values", ("weight", "batch"))
    assert {m.bytes for m in report.of(source="weight")} == {2400}
    assert report.limit("batch", batch.numel()) is not None
    for t, (values, version, address) in zip((weight, batch), kept, strict=True):
        assert torch.equal(t, values)
        assert (t._version, t.data_ptr()) == (version, address)
    assert weight.grad is None


def test_an_older_numpy_view_of_a_value_goes_on_to_share_its_memory():
    t = torch.zeros(100)
    older = t.numpy()
    bench_tensor_values({"t": t}, ["lazy_clone", "tc.fork", "numpy_roundtrip"], max_seconds=0.5)
    older[0] = 5.0
    t[1] = 7.0
    assert (float(t[0]), float(older[1])) == (5.0, 7.0)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, "a mapping of names to tensors"),
        ([torch.ones(2)], "a mapping of names to tensors"),
        (None, "a mapping of names to tensors"),
        ({"a": [1]}, r"tensors\['a'\] is list, not a tensor"),
        ({"a": torch.ones(0)}, "is empty"),
        ({"a": torch.ones(2).to_sparse()}, "no dense values"),
        ({"a": torch.ones(2, device="meta")}, "no dense values"),
    ],
    ids=["nothing", "list", "none", "no tensor", "empty", "sparse", "meta"],
)
def test_values_that_cannot_be_measured(tensors, message):
    with pytest.raises(InputError, match=message):
        bench_tensor_values(tensors)


def test_an_old_report_that_does_not_fit_is_refused_first(monkeypatch):
    old = bench_tensors(["clone"], sizes=[16], max_seconds=0.5)
    values = bench_tensor_values({"a": torch.ones(16)}, ["clone"], max_seconds=0.5, against=None)
    monkeypatch.setattr("torchcopy.bench.tensors.run_cases", None)
    with pytest.raises(InputError, match="dtype float32, this bench int8"):
        bench_tensors(["clone"], sizes=[16], dtype="int8", against=old)
    with pytest.raises(InputError, match="in common"):
        bench_tensors(["clone"], sizes=[17], against=old)
    with pytest.raises(InputError, match="values bench"):
        bench_tensors(["clone"], sizes=[16], against=values)
    with pytest.raises(InputError, match="in common"):
        bench_tensor_values({"b": torch.ones(16)}, against=values)
