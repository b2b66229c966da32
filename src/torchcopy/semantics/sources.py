"""The source tensors that copy methods are tried on, built to order."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from .._errors import InputError
from .._tensors import dtype_name

SourceKind = Literal["non_leaf", "leaf", "parameter", "no_grad", "transposed", "channels_last", "expanded", "slice"]
"""What a method is tried on. The first three require grad; the layouts do not."""

SOURCE_KINDS: tuple[SourceKind, ...] = get_args(SourceKind)
GRAD_KINDS: tuple[SourceKind, ...] = ("non_leaf", "leaf", "parameter")
SLICE_OF = 8
"""A "slice" source is one part in so many of the storage it lies in."""

DESCRIPTIONS: dict[SourceKind, str] = {
    "non_leaf": "a result of an operation, requires grad",
    "leaf": "made by the user, requires grad",
    "parameter": "an `nn.Parameter`",
    "no_grad": "contiguous, requires no grad",
    "transposed": "a transposed matrix",
    "channels_last": "a `channels_last` image batch",
    "expanded": "one row expanded to many (stride 0)",
    "slice": f"one part in {SLICE_OF} of a larger storage",
}

_DTYPE_NAMES = (
    "float32 float64 float16 bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "complex64 complex128 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool"
).split()
DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in _DTYPE_NAMES if hasattr(torch, name)}
"""The dtypes a source can be filled with, by name."""


def parse_dtype(name: str | torch.dtype) -> torch.dtype:
    """The dtype called `name` (`float32`, `torch.float32`).

    Raises:
        InputError: there is none, or a source cannot be filled with it.
    """
    if isinstance(name, torch.dtype):
        name = dtype_name(name)
    found = DTYPES.get(str(name).removeprefix("torch."))
    if found is None:
        raise InputError(f"there is no dtype {name!r} to copy: use one of {', '.join(DTYPES)}")
    return found


def device_named(name: str | torch.device) -> torch.device:
    """The device called `name`, whether it is at hand or not.

    Raises:
        InputError: PyTorch knows no such device, or its tensors hold no values.
    """
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"there is no device {name!r}: use `cpu`, `cuda`, `cuda:1`, `mps`, …") from error
    if device.type == "meta":
        raise InputError("device 'meta' holds no values, so no copy can be measured on it: use `cpu` or `cuda`")
    return device


def parse_device(name: str | torch.device) -> torch.device:
    """The device called `name`, after putting a tensor there to see that it is at hand.

    Raises:
        InputError: there is no such device here, or its tensors hold no values.
    """
    device = device_named(name)
    try:
        return torch.empty(1, device=device).device
    except Exception as error:  # each backend raises its own type when it is not there
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(f"device {str(name)!r} is not at hand here ({reason}): use `cpu`") from error


def parse_source_kind(name: str) -> SourceKind:
    """The source kind called `name`.

    Raises:
        InputError: there is none.
    """
    for kind in SOURCE_KINDS:
        if kind == name:
            return kind
    raise InputError(f"there is no source kind {name!r}: use one of {', '.join(SOURCE_KINDS)}")


def available_kinds(dtype: torch.dtype) -> tuple[SourceKind, ...]:
    """The kinds a source of this dtype can have: integers cannot require grad."""
    if dtype.is_floating_point or dtype.is_complex:
        return SOURCE_KINDS
    return tuple(kind for kind in SOURCE_KINDS if kind not in GRAD_KINDS)


_PERIOD = 61  # a prime: no stride of a layout meets the same value again and again


def fill(numel: int, *, device: torch.device, dtype: torch.dtype) -> Tensor:
    """A fresh one-dimensional tensor of changing values that use all of the dtype.

    Negative and positive, with every bit of the mantissa, and with the largest, the smallest and negative zero
    among them: a copy that goes through a narrower dtype loses some. No infinity and no NaN.
    """
    pattern = _pattern(dtype).to(device)
    out = torch.empty(numel, device=device, dtype=dtype)
    whole = numel - numel % _PERIOD
    out[:whole].view(-1, _PERIOD).copy_(pattern)
    out[whole:].copy_(pattern[: numel - whole])
    return out


def _pattern(dtype: torch.dtype) -> Tensor:
    steps = torch.arange(_PERIOD, device="cpu")
    if dtype == torch.bool:
        return steps % 2 == 0
    if dtype.is_complex:
        real = _pattern(torch.float64 if dtype == torch.complex128 else torch.float32)
        return torch.complex(real, -real.flip(0))
    if dtype.is_floating_point:
        values = ((steps - 30) / 7).to(torch.float64).to(dtype)
        limits = torch.finfo(dtype)
        extremes = (limits.max, limits.min, limits.tiny, -0.0)
        values[20:24] = torch.tensor(extremes, dtype=torch.float64, device="cpu").to(dtype)
        return values
    largest = min(torch.iinfo(dtype).max, torch.iinfo(torch.int64).max)
    start = -30 if torch.iinfo(dtype).min < 0 else 0
    return ((steps + start) * (largest // _PERIOD) + steps % 2).to(dtype)


def _factors(numel: int, dims: int) -> tuple[int, ...]:
    """`numel` as a product of `dims` factors that are as alike as its divisors allow."""
    sizes = []
    for left in range(dims, 1, -1):
        factor = max(1, round(numel ** (1 / left)))
        while numel % factor:
            factor -= 1
        sizes.append(factor)
        numel //= factor
    return (*sizes, numel)


@dataclasses.dataclass(frozen=True)
class Source:
    """A source tensor and what it was made from.

    Attributes:
        kind: which kind.
        tensor: what is to be copied.
    """

    kind: SourceKind
    tensor: Tensor

    @property
    def bytes(self) -> int:
        """Bytes of the tensor's own elements: a dense copy of it holds so many."""
        return self.tensor.numel() * self.tensor.element_size()


def build_source(
    kind: SourceKind,
    *,
    numel: int,
    device: torch.device,
    dtype: torch.dtype,
) -> Source:
    """A new source of `numel` elements; no two calls share memory.

    Args:
        kind: which kind.
        numel: number of elements, at least 1.
        device: where.
        dtype: as what.

    Raises:
        InputError: the dtype cannot require grad and the kind does.
    """
    if kind not in available_kinds(dtype):
        raise InputError(
            f"a {dtype_name(dtype)} tensor cannot require grad: source {kind!r} needs a floating dtype"
        )
    with torch.enable_grad():
        return Source(kind, _build(kind, numel, device, dtype))


def _build(kind: SourceKind, numel: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    def flat(count: int) -> Tensor:
        return fill(count, device=device, dtype=dtype)

    match kind:
        case "no_grad":
            return flat(numel)
        case "leaf":
            return flat(numel).requires_grad_()
        case "parameter":
            return nn.Parameter(flat(numel))
        case "non_leaf":
            return flat(numel).requires_grad_().clone()
        case "transposed":
            rows, columns = _factors(numel, 2)
            return flat(numel).view(columns, rows).t()
        case "channels_last":
            batch, height, width, channels = _factors(numel, 4)
            return flat(numel).view(batch, height, width, channels).permute(0, 3, 1, 2)
        case "expanded":
            rows, columns = _factors(numel, 2)
            return flat(columns).expand(rows, columns)
        case "slice":
            return flat(SLICE_OF * numel)[numel : 2 * numel]
