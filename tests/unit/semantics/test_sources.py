import pytest
import torch

from torchcopy import InputError
from torchcopy.semantics.sources import (
    DTYPES,
    SOURCE_KINDS,
    available_kinds,
    build_source,
    device_named,
    parse_device,
    parse_dtype,
    parse_source_kind,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("numel", [1, 7, 120, 4096])
def test_sources_are_what_they_are_called(dtype, numel):
    for kind in available_kinds(DTYPES[dtype]):
        t = build_source(kind, numel=numel, device=CPU, dtype=DTYPES[dtype]).tensor
        assert t.numel() == numel
        assert t.dtype == DTYPES[dtype]
        assert t.requires_grad is (kind in ("leaf", "non_leaf", "parameter"))
        assert t.is_leaf is (kind != "non_leaf")
        assert isinstance(t, torch.nn.Parameter) is (kind == "parameter")
        if kind == "channels_last":
            assert t.is_contiguous(memory_format=torch.channels_last)
        if kind == "slice":
            assert t.untyped_storage().nbytes() == 8 * numel * t.element_size()


def test_layouts_differ_from_contiguous_and_values_vary():
    built = {kind: build_source(kind, numel=120, device=CPU, dtype=torch.float32).tensor for kind in SOURCE_KINDS}
    assert not built["transposed"].is_contiguous()
    assert not built["channels_last"].is_contiguous()
    assert 0 in built["expanded"].stride()
    assert len(built["leaf"].unique()) > 50


def test_two_sources_share_nothing():
    a, b = (build_source("no_grad", numel=4, device=CPU, dtype=torch.float32).tensor for _ in range(2))
    kept = b.clone()
    a.fill_(-1)
    assert torch.equal(b, kept)
    b.fill_(-2)
    assert a.tolist() == [-1] * 4


def test_integers_cannot_require_grad():
    with pytest.raises(
        InputError, match=r"a int64 tensor cannot require grad: source 'leaf' needs a floating dtype"
    ):
        build_source("leaf", numel=4, device=CPU, dtype=torch.int64)


def test_parsing_dtypes():
    assert parse_dtype("torch.float16") is parse_dtype("float16") is parse_dtype(torch.float16) is torch.float16
    for bad in ("float17", "", "qint8", torch.quint8, 3):
        with pytest.raises(InputError, match="there is no dtype"):
            parse_dtype(bad)


def test_parsing_devices():
    assert parse_device("cpu") == CPU
    assert device_named("cuda:1").index == 1
    for bad, message in (
        ("nowhere", "there is no device 'nowhere'"),
        ("meta", "holds no values"),
        ("cuda:99", "device 'cuda:99' is not at hand here"),
    ):
        with pytest.raises(InputError, match=message):
            parse_device(bad)


def test_parsing_source_kinds():
    assert parse_source_kind("slice") == "slice"
    with pytest.raises(InputError, match="there is no source kind 'slices': use one of non_leaf"):
        parse_source_kind("slices")
