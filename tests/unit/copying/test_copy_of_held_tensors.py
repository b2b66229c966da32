"""Tensors that PyTorch can hold, and hardly compute with: what can be copied is, and what cannot says so."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import torchcopy as tc
from torchcopy.copying.tensors import opaque

pytestmark = [
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning"),
]

NAMES = ["int1", "int4", "uint2", "uint4", "uint7", "bits8", "bits16", "bits4x2", "float4_e2m1fn_x2"]
DTYPES = [getattr(torch, name) for name in NAMES if hasattr(torch, name)]  # older PyTorch has fewer
FLOAT4 = [dtype for dtype in DTYPES if dtype.is_floating_point]


def held(dtype, count=6):
    return torch.arange(count * dtype.itemsize, dtype=torch.uint8).view(dtype)


def content(t):
    return t.view({1: torch.uint8, 2: torch.int16}[t.dtype.itemsize]).flatten().tolist()


def overwrite(t, value):
    t.view({1: torch.uint8, 2: torch.int16}[t.dtype.itemsize]).fill_(value)


def assert_apart(source, copied):
    assert copied.dtype == source.dtype
    assert copied.stride() == source.stride()
    before = content(source)
    assert content(copied) == before
    overwrite(source, 77)
    assert content(copied) == before
    overwrite(copied, 33)
    assert set(content(source)) == {77}


@pytest.mark.parametrize(
    "options", [{}, {"memory": "lazy"}, {"device": "cpu"}, {"graph": "keep"}, {"grad": True}], ids=str
)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_dtype_without_arithmetic_is_copied(dtype, options):
    list_of, tuple_of, alone = [held(dtype)], (held(dtype), torch.ones(2)), held(dtype).view(2, 3).t()
    assert_apart(list_of[0], tc.copy(list_of, **options)[0])
    assert_apart(tuple_of[0], tc.copy(tuple_of, **options)[0])
    assert_apart(alone, tc.copy(alone, **options))


@pytest.mark.parametrize("options", [{}, {"memory": "lazy"}, {"graph": "keep"}], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_views_of_one_storage_stay_views_of_one(dtype, options):
    source = held(dtype, 8)
    views = [source[1:5], source[3:8], (source[4:],)]
    copied = tc.copy(views, **options)
    expected = [content(view) for view in (*views[:2], *views[2])]
    overwrite(source, 77)
    assert [content(view) for view in (*copied[:2], *copied[2])] == expected
    overwrite(copied[0], 33)
    assert content(copied[1])[:2] == [33, 33]
    assert set(content(source)) == {77}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_among_others_and_large(dtype):
    source = {"q": held(dtype, 100_000), "w": torch.ones(100_000), "s": torch.ones(3)}
    copied = tc.copy(source)
    source["w"].zero_()
    assert float(copied["w"].sum()) == 100_000
    assert copied["s"].tolist() == [1, 1, 1]
    assert_apart(source["q"], copied["q"])


@pytest.mark.parametrize("dtype", FLOAT4, ids=str)
def test_a_dtype_that_is_packed_is_not_converted(dtype):
    with pytest.raises(
        tc.InputError, match=r"`obj\['a'\]\[0\]` .* is float4_e2m1fn_x2, and PyTorch cannot convert"
    ):
        tc.copy({"a": [held(dtype)]}, dtype=torch.float32)


def test_quantized_channels_of_less_than_a_byte():
    ones = torch.ones(3)
    source = torch.quantize_per_channel(torch.ones(3, 4), ones, torch.zeros(3), 0, torch.quint4x2)
    for options in ({}, {"memory": "lazy"}, {"device": "cpu"}):
        (copied,) = tc.copy([source], **options)
        assert copied.dequantize().tolist() == source.dequantize().tolist()
        before = copied.dequantize().tolist()
        written = torch.quantize_per_channel(torch.full((3, 4), 5.0), ones, torch.zeros(3), 0, torch.quint4x2)
        source.untyped_storage().copy_(written.untyped_storage())
        assert copied.dequantize().tolist() == before
        copied.untyped_storage().fill_(0)
        assert source.dequantize().tolist() == [[5.0] * 4] * 3
        source.untyped_storage().fill_(0x11)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("graph", ["detach", "keep"])
def test_mkldnn_converts_where_it_can(dtype, graph):
    dense = torch.arange(6.0).view(2, 3).requires_grad_()
    source = dense.to_mkldnn()
    copied = tc.copy([source], dtype=dtype, graph=graph)[0]
    assert copied.layout == source.layout
    assert copied.dtype == dtype
    assert copied.requires_grad == (graph == "keep")
    before = copied.to_dense().tolist()
    with torch.no_grad():
        source.mul_(3)
        assert copied.to_dense().tolist() == before == [[0, 1, 2], [3, 4, 5]]
        now = source.to_dense().tolist()
        copied.zero_()
        assert source.to_dense().tolist() == now


REFUSED = {
    "mkldnn in float64": (lambda: torch.ones(2).to_mkldnn(), {"dtype": torch.float64}, "to_dense"),
    "mkldnn on meta": (lambda: torch.ones(2).to_mkldnn(), {"device": "meta"}, "to_dense"),
    "quantized on meta": (
        lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        {"device": "meta"},
        "dequantize",
    ),
    "nested on meta": (
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        {"device": "meta"},
        "layout=torch.jagged",
    ),
    "no quantizer": (lambda: torch.empty(4, dtype=torch.qint8), {}, "without a quantizer"),
}


@pytest.mark.parametrize("graph", ["detach", "keep"])
@pytest.mark.parametrize("wrap", [list, tuple], ids=["list", "tuple"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_has_no_such_tensor_for(name, wrap, graph):
    make, options, told = REFUSED[name]
    source = {"w": torch.ones(2), "rare": wrap([make()])}
    with pytest.raises(tc.InputError, match=rf"^`obj\['rare'\]\[0\]` .*{told}.*`share`$") as caught:
        tc.copy(source, graph=graph, **options)
    assert "\n" not in str(caught.value)
    shared = tc.copy(source, graph=graph, share=source["rare"], **options)
    assert shared["rare"][0] is source["rare"][0]
    assert shared["w"] is not source["w"]


def test_a_jagged_one_has_shapes_on_the_meta_device():
    source = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    copied = tc.copy([source], device="meta")[0]
    assert copied.device.type == "meta"
    assert copied.layout == torch.jagged
    assert source.values().tolist() == [1] * 5


def test_what_a_fake_tensor_can_do_is_not_taken_for_what_a_real_one_can():
    source = torch.arange(8, dtype=torch.uint8).view(torch.int4)
    opaque._is_only_held.cache_clear()
    with FakeTensorMode():
        assert tc.copy(torch.empty(8, dtype=torch.uint8).view(torch.int4)).dtype == torch.int4
        assert opaque._is_only_held(torch.int4)
    copied = tc.copy(source)
    source.view(torch.uint8).zero_()
    assert copied.view(torch.uint8).tolist() == list(range(8))
    copied.view(torch.uint8).fill_(9)
    assert not source.view(torch.uint8).any()
