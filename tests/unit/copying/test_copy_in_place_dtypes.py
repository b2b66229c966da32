"""`copy_` and `lerp_` between every two dtypes of PyTorch: as on a lone tensor, or refused with nothing written."""

import numpy as np
import pytest
import torch
from in_place_checks import assert_apart, assert_refused

import torchcopy as tc

DTYPES = sorted({each for each in vars(torch).values() if isinstance(each, torch.dtype)}, key=str)
QUANTIZED = {torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4}
COMPUTED = {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128}
HELD = [d for d in DTYPES if d.itemsize == 1 and str(d)[6:].startswith(("bits", "int", "uint", "float4"))]
HELD = [d for d in HELD if d not in (torch.int8, torch.uint8)] + [torch.bits16]


def made(dtype, values, step):
    """The values in this dtype, as whole bytes where PyTorch does not convert to it; every `step`-th element."""
    if dtype in (torch.qint8, torch.quint8, torch.qint32):
        return torch.quantize_per_tensor(torch.tensor(values).repeat_interleave(step).float(), 1.0, 0, dtype)[
            ::step
        ]
    room = torch.zeros(len(values) * step * dtype.itemsize, dtype=torch.uint8).view(dtype)
    t = room[::step]
    if dtype in HELD or dtype in QUANTIZED:
        bytes_of(room)[:: step * dtype.itemsize].copy_(torch.tensor(values))
    else:
        t.copy_(torch.tensor(values))
    return t


def bytes_of(t):
    """All bytes of its storage, gaps included: writes through no dtype."""
    return torch.empty(0, dtype=torch.uint8).set_(t.untyped_storage())


def refusal_of(call, *arguments):
    """What the error says; empty where the call goes through."""
    try:
        call(*arguments)
    except tc.InputError as error:
        return str(error)
    return ""


def copied_alone(d, s):
    """What PyTorch makes of it; None where it cannot."""
    try:
        return d.copy_(s)
    except RuntimeError:
        return bytes_copied(d, s) if d.dtype is s.dtype and d.dtype in HELD else None


def bytes_copied(d, s):
    bytes_of(d).copy_(bytes_of(s))
    return d


def interpolated_alone(d, s):
    dtype = d.dtype
    if dtype in QUANTIZED:  # neither integers, nor anything that PyTorch interpolates
        return None
    if not (dtype.is_floating_point or dtype.is_complex):
        return None if s.dtype.is_floating_point else copied_alone(d, s)
    wide = dtype if dtype in COMPUTED else torch.complex64 if dtype.is_complex else torch.float32
    try:
        return d.copy_(d.to(wide).lerp_(s.to(dtype).to(wide) if dtype is wide else s.to(wide), 0.5))
    except RuntimeError:
        return None


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.filterwarnings("ignore:.*other quantized tensor creation functions")
@pytest.mark.parametrize("step", [1, 2], ids=["contiguous", "strided"])
@pytest.mark.parametrize("call", ["copy_", "lerp_"])
@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_every_dtype_into_every_other(d, call, step):
    refused = []
    for s in DTYPES:
        alone = (copied_alone if call == "copy_" else interpolated_alone)(
            made(d, [1, 4], step), made(s, [3, 2], step)
        )
        if s.is_complex and not d.is_complex:
            alone = None  # PyTorch drops the imaginary part
        dst = [torch.zeros(2), made(d, [1, 4], step), torch.zeros(2)]
        src = [torch.ones(2), made(s, [3, 2], step), torch.ones(2)]
        before = [[bytes_of(t).tolist() for t in side] for side in (dst, src)]
        refusal = refusal_of(getattr(tc, call), dst, src, *((0.5,) if call == "lerp_" else ()))
        if refusal:
            refused.append(s)
            assert alone is None, f"PyTorch can write {s}: {refusal}"
            assert refusal.startswith(f"`{call}` wrote nothing: dst[1]: ")
            assert "\n" not in refusal
            assert [[bytes_of(t).tolist() for t in side] for side in (dst, src)] == before
            assert [t._version for t in (dst[0], dst[2])] == [0, 0]
            continue
        assert alone is not None, f"{s} was written"
        assert bytes_of(dst[1]).tolist() == bytes_of(alone).tolist(), f"from {s}"
        assert dst[0].tolist() == dst[2].tolist() == [1 if call == "copy_" else 0.5] * 2
        assert [bytes_of(t).tolist() for t in src] == before[1], "src was written"
        written = bytes_of(dst[1]).tolist()
        bytes_of(src[1]).fill_(7)
        assert bytes_of(dst[1]).tolist() == written, "a write to src is seen in dst"
        bytes_of(dst[1]).fill_(9)
        assert set(bytes_of(src[1]).tolist()) == {7}, "a write to dst is seen in src"
    if d in HELD:
        held_apart = [s for s in DTYPES if s is not d]
        assert refused == (DTYPES if call == "lerp_" and d.is_floating_point else held_apart)


@pytest.mark.parametrize("d", HELD, ids=str)
def test_a_dtype_that_pytorch_only_holds(d):
    """In one call with others, tied, swapped and 0-dim."""
    a, b, zero_dim = made(d, [1, 2], 1), made(d, [3, 4], 1), made(d, [5], 1)[0]
    bytes_a, bytes_b = bytes_of(a).tolist(), bytes_of(b).tolist()
    tc.copy_([a, b], [b, a])
    assert (bytes_of(a).tolist(), bytes_of(b).tolist()) == (bytes_b, bytes_a)
    tc.copy_([a, a, zero_dim], [b, b, made(d, [6], 1)[0]])
    assert bytes_of(a).tolist() == bytes_a
    assert bytes_of(zero_dim)[0] == 6
    before = bytes_of(b).tolist()
    with pytest.raises(tc.InputError, match="tie them in src too"):
        tc.copy_([b, b], [a, made(d, [7, 8], 1)])
    assert bytes_of(b).tolist() == before
    bytes_of(a).fill_(9)
    assert bytes_of(b).tolist() == before


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32], ids=str)
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_tied_targets_of_dtypes_that_pytorch_does_not_compare(dtype):
    one, ones, twos = (torch.full((2,), value).to(dtype) for value in (0.0, 1.0, 2.0))
    tc.copy_([one, one], [ones, ones.clone()])
    assert one.to(torch.complex64).real.tolist() == [1, 1]
    with pytest.raises(tc.InputError, match="tie them in src too"):
        tc.copy_([one, one], [ones, twos])
    assert one.to(torch.complex64).real.tolist() == [1, 1]
    ones.copy_(twos)
    assert one.to(torch.complex64).real.tolist() == [1, 1]


# --- weights -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [1e39, -1e300, 3.4028235e38], ids=str)
@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex32, torch.float8_e5m2],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_a_weight_that_a_dtype_cannot_hold_is_refused_before_anything_is_written(dtype, weight):
    dst = {"a": torch.zeros(2, dtype=torch.float64), "b": torch.zeros(2, dtype=dtype)}
    src = {"a": torch.ones(2, dtype=torch.float64), "b": torch.ones(2).to(dtype)}
    with pytest.raises(tc.InputError, match=r"^`lerp_` wrote nothing: weight is .* dst\['b'\] is ") as caught:
        tc.lerp_(dst, src, weight)
    assert "\n" not in str(caught.value)
    assert str(dtype).removeprefix("torch.") in str(caught.value)
    assert (dst["a"].tolist(), dst["a"]._version, dst["b"]._version) == ([0, 0], 0, 0)
    assert not bytes_of(dst["b"]).any()
    assert src["a"].tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128, torch.int64, torch.bool], ids=str)
def test_a_weight_that_is_large_for_others(dtype):
    dst, src = [torch.zeros(2, dtype=dtype)], [torch.ones(2).to(dtype)]
    expected = 1 if dtype in (torch.int64, torch.bool) else 1e300
    tc.lerp_(dst, src, 1e300)
    assert dst[0].tolist() == [expected] * 2
    assert_apart(dst, src)


def test_a_weight_that_an_array_of_another_byte_order_cannot_hold():
    dst, src = [torch.zeros(2), np.zeros(2, ">f2")], [torch.ones(2), np.ones(2, ">f2")]
    assert_refused(
        tc.lerp_, dst, src, 1e5, match=r"weight is 100000.0, and dst\[1\] is >f2\[2\] numpy: .* 6.55e\+04"
    )
    tc.lerp_(dst, src, 0.5)
    assert dst[1].tolist() == [0.5, 0.5]
    assert_apart(dst, src)
