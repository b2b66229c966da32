"""How checked pairs are written: in how many calls, in which order, and what is waited for."""

import pytest
import torch
from in_place_checks import assert_apart, holds
from torch import nn

import torchcopy as tc
from torchcopy import _torch_private
from torchcopy.copying.writing import tensor_writes

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.float64, torch.float32)


def tensors(value):
    made = [torch.full((2, 3), value).to(dtype) for dtype in DTYPES]
    return [*made, torch.full((3, 2), value).t()]


@pytest.fixture(params=["CPU only", "with an accelerator", "without calls for many tensors"])
def installation(request, monkeypatch):
    """The same has to come out on machines and versions of PyTorch of every kind."""
    if request.param == "with an accelerator":
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    elif request.param == "without calls for many tensors":
        works = _torch_private.works
        monkeypatch.setattr(_torch_private.foreach, "works", lambda name: "foreach" not in name and works(name))
    return request.param


def test_copies_on_every_installation(installation):
    dst, src = tensors(0.0), tensors(3.0)
    tc.copy_(dst, src)
    assert holds(dst, tensors(3.0))
    assert_apart(dst, src)


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.float64], ids=["each", "float32", "float64"])
def test_interpolates_on_every_installation(installation, dtype):
    dst, src = (
        tensors(0.0),
        [t if dtype is None or not t.is_floating_point() else t.to(dtype) for t in tensors(3.0)],
    )
    tc.lerp_(dst, src, 0.25)
    expected = [torch.full((2, 3), 3.0 if d == torch.int64 else 0.75).to(d) for d in DTYPES]
    assert holds(dst, [*expected, torch.full((2, 3), 0.75)])
    assert_apart(dst, src)


def test_one_call_writes_all_of_a_model(monkeypatch):
    calls = []
    foreach_copy_ = _torch_private.foreach_copy_

    def counted(targets, sources, **options):
        calls.append(len(targets))
        foreach_copy_(targets, sources, **options)

    monkeypatch.setattr(_torch_private, "foreach_copy_", counted)
    dst, src = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    tc.copy_(dst, src)
    assert calls == [7]
    assert_apart(dst, src)


def test_sources_are_converted_a_block_at_a_time(monkeypatch):
    monkeypatch.setattr(tensor_writes, "_BLOCK_BYTES", 100)
    held = []
    foreach_lerp_ = _torch_private.foreach_lerp_

    def watched(targets, ends, weight):
        held.append(sum(t.nbytes for t in ends))
        foreach_lerp_(targets, ends, weight)

    monkeypatch.setattr(_torch_private, "foreach_lerp_", watched)
    dst, src = [torch.zeros(10) for _ in range(5)], [torch.ones(10, dtype=torch.bfloat16) for _ in range(5)]
    tc.lerp_(dst, src, 0.5)
    assert held == [80, 80, 40]
    assert holds(dst, [torch.full((10,), 0.5)] * 5)
    assert_apart(dst, src)


def test_what_is_waited_for():
    here, there = torch.zeros(1), torch.zeros(1, device="meta")
    assert tensor_writes.devices_to_wait_for([(here, here), (there, here), (there, there)]) == set()
    assert tensor_writes.devices_to_wait_for([(here, here), (here, there)]) == {torch.device("meta")}


def test_non_blocking_on_the_host_is_a_copy():
    dst, src = tensors(0.0), tensors(3.0)
    assert tc.copy_(dst, src, non_blocking=True) is dst
    assert holds(dst, tensors(3.0))
    assert_apart(dst, src)


# --- all or nothing ------------------------------------------------------------------------------------------


class Refusing(torch.Tensor):
    """A subclass whose `copy_` raises once it is told to, after what was tried before had worked."""

    refuses = False

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.copy_ and getattr(args[0], "refuses", False):
            raise ValueError("no")
        return super().__torch_function__(func, types, args, kwargs or {})


def test_what_was_written_is_put_back_when_a_tensor_refuses():
    refusing = torch.zeros(2).as_subclass(Refusing)
    refusing.refuses = True
    dst = {"n": 1, "plain": torch.zeros(2), "odd": torch.eye(2).to_sparse(), "refusing": refusing}
    src = {"n": 2, "plain": torch.ones(2), "odd": torch.eye(2).to_sparse() * 3, "refusing": torch.ones(2)}
    with pytest.raises(ValueError, match="no"):
        tc.copy_(dst, src)
    assert dst["n"] == 1
    assert (dst["plain"].tolist(), dst["plain"]._version) == ([0, 0], 0)
    assert torch.equal(dst["odd"].to_dense(), torch.eye(2))
    assert src["plain"].tolist() == [1, 1]
    refusing.refuses = False
    tc.copy_(dst, src)
    assert dst["n"] == 2
    assert torch.equal(dst["odd"].to_dense(), torch.eye(2) * 3)
    src["odd"].zero_()
    assert torch.equal(dst["odd"].to_dense(), torch.eye(2) * 3)
    assert_apart([dst["plain"], dst["refusing"]], [src["plain"], src["refusing"]])


@pytest.mark.parametrize(
    "make",
    [
        lambda value: (torch.eye(3) * value).to_sparse(),
        lambda value: (torch.eye(3) * value).to_sparse_csr(),
        lambda value: torch.quantize_per_tensor(torch.eye(3) * value, 0.5, 0, torch.qint8),
    ],
    ids=["sparse", "csr", "quantized"],
)
@pytest.mark.filterwarnings("ignore:.*Sparse CSR tensor support is in beta")
@pytest.mark.filterwarnings("ignore:.*other quantized tensor creation functions")
def test_odd_inference_tensors_are_written_outside_of_inference_mode(make):
    with torch.inference_mode():
        odd = make(1)
    dst, src = [torch.zeros(2), odd], [torch.ones(2), make(2)]
    tc.copy_(dst, src)
    for source_now in (2, 3):
        with torch.inference_mode():  # without it PyTorch does not even read a csr tensor of that mode
            held = odd.dequantize() if odd.is_quantized else odd.to_dense()
        assert torch.equal(held, torch.eye(3) * 2)
        src[1].copy_(make(source_now + 1))
    assert_apart(dst[0], src[0])
