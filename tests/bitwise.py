"""Whether two states are equal to the last bit, and where they are not."""

import struct

import numpy as np
import torch


def bits(x):
    """`x` as plain values that share nothing with it; two are equal if and only if all bits are."""
    if isinstance(x, torch.Tensor):
        return _tensor_bits(x.detach())
    if isinstance(x, np.ndarray):
        return ("array", str(x.dtype), x.shape, x.tobytes())
    if isinstance(x, dict):
        return {name: bits(value) for name, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [bits(value) for value in x]
    if isinstance(x, float):
        return ("float", struct.pack("d", x))
    return x


def _tensor_bits(t):
    if t.layout is not torch.strided:
        return ("sparse", tuple(t.shape), [_tensor_bits(t.indices()), _tensor_bits(t.values())])
    kind = (str(t.dtype), tuple(t.shape), t.requires_grad)
    if t.is_quantized:
        return ("tensor", *kind, t.int_repr().numpy().tobytes())
    t = t.resolve_conj().resolve_neg().contiguous().reshape(-1)
    return ("tensor", *kind, t.view(torch.uint8).numpy().tobytes())


def differences(a, b, path=""):
    """The paths at which two results of `bits` differ; none if all is equal."""
    if isinstance(a, dict) and isinstance(b, dict):
        if list(a) != list(b):
            return [f"{path}: {list(a)} and {list(b)}"]
        return [line for name in a for line in differences(a[name], b[name], f"{path}[{name!r}]")]
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return [f"{path}: {len(a)} and {len(b)} items"]
        return [
            line for k, (x, y) in enumerate(zip(a, b, strict=True)) for line in differences(x, y, f"{path}[{k}]")
        ]
    return [] if a == b else [path or "the whole"]
