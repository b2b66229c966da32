import pytest
import torch

from torchcopy._tensors import (
    describe,
    first_byte,
    format_bytes,
    format_seconds,
    has_storage,
    same_storage,
    span_bytes,
)


def test_describe():
    assert describe(torch.zeros(2, 3)) == "float32[2, 3] cpu"
    assert describe(torch.tensor(1)) == "int64[] cpu"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (999_999, "1.00 MB"), (16_384, "16.4 kB"), (498e6, "498 MB"),
     (2.5e15, "2500 TB")],
)  # fmt: skip
def test_format_bytes(count, text):
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2 s"), (0.0123, "12.3 ms"), (3.2e-6, "3.2 µs"), (5e-9, "5 ns"), (0.0, "0 ns")]
)
def test_format_seconds(seconds, text):
    assert format_seconds(seconds) == text


def test_spans_and_addresses():
    base = torch.zeros(4, 6)
    assert span_bytes(base) == 96
    assert span_bytes(base[:, 0]) == (3 * 6 + 1) * 4
    assert span_bytes(base[:0]) == 0
    assert span_bytes(base[:1, :1].expand(9, 9)) == 4
    assert first_byte(base[1, 2:]) - first_byte(base) == 8 * 4


def test_storages():
    base = torch.zeros(4)
    assert has_storage(base)
    assert not has_storage(torch.eye(2).to_sparse())
    assert same_storage(base, base[2:].detach())
    assert not same_storage(base, base.clone())
