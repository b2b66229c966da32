"""Packed transfers, conversions in one pass, and transfers that the host cannot read too early."""

import pytest
import torch

import torchcopy as tc
from torchcopy.copying.request import Request
from torchcopy.copying.tensors import placement
from torchcopy.semantics.allocation import measure_allocation

DTYPES = (
    torch.float64,
    torch.float32,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.complex128,
    torch.complex64,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.uint16,
    torch.uint8,
    torch.bool,
)


def values(dtype, shape, seed):
    numbers = torch.randint(
        0, 2 if dtype is torch.bool else 100, shape, generator=torch.Generator().manual_seed(seed)
    )
    return numbers.to(dtype)


def sources_of_every_kind():
    """Sizes that leave gaps before the next multiple of 16 bytes, 0-dim and empty ones, several layouts."""
    shapes = [(), (1,), (3,), (0,), (2, 0, 3), (5, 7), (2, 3, 4, 5)]
    made = [values(dtype, shape, k) for k, dtype in enumerate(DTYPES) for shape in shapes]
    made += [values(dtype, (6, 4), 7).t() for dtype in DTYPES]
    made += [values(dtype, (2, 3, 4, 4), 8).to(memory_format=torch.channels_last) for dtype in DTYPES]
    return [*made, values(torch.float32, (9,), 9)[1::2], values(torch.float32, (1,), 10).expand(5)]


def bits(t):
    return t.contiguous().view(-1).view(torch.uint8).clone()


def assert_apart(source, copied):
    """Writes to each side and looks at the other."""
    for written, other in ((source, copied), (copied, source)):
        before = bits(other)
        written.view(torch.uint8).fill_(1) if written.is_contiguous() and written.dim() else written.fill_(1)
        assert torch.equal(bits(other), before)


def test_packed_tensors_arrive_as_they_were():
    sources = sources_of_every_kind()
    expected = list(map(bits, sources))
    targets = [torch.empty_like(t) for t in sources]
    placement.move_packed(list(zip(targets, sources, strict=True)))
    for source, target, was in zip(sources, targets, expected, strict=True):
        assert torch.equal(bits(target), was)
        assert torch.equal(bits(source), was)
    for source, target in zip(sources, targets, strict=True):
        if 0 not in source.stride():
            assert_apart(source, target)


def test_packed_tensors_may_change_their_dtype():
    sources = [values(dtype, (3, 5), k) for k, dtype in enumerate((torch.float32, torch.bfloat16, torch.float64))]
    targets = [torch.empty(3, 5, dtype=torch.float16) for _ in sources]
    placement.move_packed(list(zip(targets, sources, strict=True)))
    for source, target in zip(sources, targets, strict=True):
        assert torch.equal(target, source.half())
        source.zero_()
        assert target.any()
        target.fill_(7)
        assert not source.any()


class Elsewhere:
    """A tensor on the CPU that says it is on another device."""

    def __init__(self, tensor, device):
        self.tensor, self.device, self.nbytes = tensor, torch.device(device), tensor.nbytes


@pytest.fixture
def waited(monkeypatch):
    """The devices that were waited for, in order, with how many tensors had been moved by then."""
    log, moved = [], []
    wait_for = lambda devices: log.extend((device.type, len(moved)) for device in devices)  # noqa: E731
    monkeypatch.setattr(placement, "wait_for", wait_for)
    monkeypatch.setattr(placement, "_move", moved.extend)
    return log


@pytest.mark.parametrize("non_blocking", [False, True])
def test_what_goes_to_the_host_is_complete(waited, non_blocking):
    pairs = [(Elsewhere(torch.ones(3), "cpu"), Elsewhere(torch.ones(3), "cuda")) for _ in range(5)]
    placement.transfer(pairs, non_blocking=non_blocking)
    assert waited == [("cuda", 5)]  # once, behind all of them


def test_what_goes_to_a_device_is_waited_for_unless_asked_otherwise(waited):
    pairs = [(Elsewhere(torch.ones(3), "cuda"), Elsewhere(torch.ones(3), "cpu")) for _ in range(5)]
    placement.transfer(pairs, non_blocking=True)
    assert waited == []
    placement.transfer(pairs, non_blocking=False)
    assert waited == [("cuda", 10)]


@pytest.mark.parametrize("around", [list, tuple, lambda ts: dict(enumerate(ts))], ids=["list", "tuple", "dict"])
def test_dtype_converts_floating_tensors_only(around):
    sources = [values(dtype, (40,), k) for k, dtype in enumerate(DTYPES)]
    made = tc.copy(around(sources), dtype=torch.float64)
    copies = list(made.values()) if isinstance(made, dict) else list(made)
    for source, copied in zip(sources, copies, strict=True):
        assert copied.dtype == (torch.float64 if source.is_floating_point() else source.dtype)
        assert torch.equal(copied, source.to(copied.dtype))
        assert_apart(source, copied)


@pytest.mark.parametrize(
    "sizes", [[1 << 18] * 4, [100] * 400, [1 << 18, 100, 50_000]], ids=["large", "small", "both"]
)
@pytest.mark.parametrize(
    "options",
    [
        {"dtype": torch.float64},
        {"dtype": torch.bfloat16},
        {"device": "cpu"},
        {"memory_format": torch.contiguous_format},
    ],
    ids=str,
)
def test_a_conversion_is_one_pass(sizes, options):
    """No tensor is copied on its way: only the copy's own bytes are allocated."""
    sources = [torch.randn(size) for size in sizes]
    tc.copy(sources, **options)
    copies, measured = measure_allocation(lambda: tc.copy(sources, **options), torch.device("cpu"))
    own = sum(c.untyped_storage().nbytes() for c in copies)
    assert own <= measured.allocated_bytes <= 1.02 * own + 64 * len(sizes)
    for source, copied in zip(sources, copies, strict=True):
        assert torch.equal(copied, source.to(copied.dtype))
        assert_apart(source, copied)


def test_views_are_converted_in_one_pass():
    flat = torch.randn(1 << 18)
    parts, measured = measure_allocation(
        lambda: tc.copy([flat[: 1 << 17], flat[1 << 16 :]], dtype=torch.float64), torch.device("cpu")
    )
    assert measured.allocated_bytes <= 1.02 * flat.numel() * 8
    flat.zero_()
    parts[0][-1] = 5.0
    assert parts[1][(1 << 17) - (1 << 16) - 1] == 5.0
    assert parts[1].any()
    assert not flat.any()


def test_small_tensors_are_packed_and_large_ones_are_not(monkeypatch):
    packed = []
    monkeypatch.setattr(placement, "move_packed", packed.append)
    moved = []
    monkeypatch.setattr(placement._torch_private, "foreach_copy_", lambda to, of, **how: moved.append((to, how)))
    small = [(torch.empty(9), torch.ones(9)) for _ in range(3)]
    large = [(torch.empty(placement.PACKED_BYTES), torch.ones(placement.PACKED_BYTES))]
    placement._move(small + large)
    assert packed == [small]
    assert moved == [([large[0][0]], {"non_blocking": True})]
    placement.copy_placed([torch.ones(2)], Request(dtype=torch.float64))
    assert len(moved) == 2
