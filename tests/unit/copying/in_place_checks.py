"""What every call into existing memory has to leave behind: equal values, and two sides that stay apart."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import torchcopy as tc


def tensors_of(x):
    """All tensors and arrays of a tensor, array, module, optimizer or nesting of them, in a fixed order."""
    if isinstance(x, (Tensor, np.ndarray)):
        return [x]
    if isinstance(x, nn.Module):
        named = (*x.named_parameters(remove_duplicate=False), *x.named_buffers(remove_duplicate=False))
        return [t for _, t in named]
    if isinstance(x, torch.optim.Optimizer):
        return tensors_of([x.state[p] for group in x.param_groups for p in group["params"] if p in x.state])
    if isinstance(x, dict):
        return [t for key in x for t in tensors_of(x[key])]
    if isinstance(x, (list, tuple)):
        return [t for each in x for t in tensors_of(each)]
    return []


def values_of(x):
    """A copy of what all tensors hold, made without torchcopy."""
    return [np.array(t) if isinstance(t, np.ndarray) else t.detach().clone() for t in tensors_of(x)]


def holds(x, values):
    """Whether the tensors of `x` hold these values; NaN is equal to NaN."""
    found = tensors_of(x)
    return len(found) == len(values) and all(map(_equal, found, values))


def _equal(t, value):
    if isinstance(t, np.ndarray):
        return np.array_equal(t, np.asarray(value))
    t, value = t.detach(), torch.as_tensor(value)
    if t.shape != value.shape:
        return False
    if not t.dtype.is_floating_point and not t.dtype.is_complex:
        return torch.equal(t.to(value.dtype), value)
    return torch.allclose(t, value.to(t.dtype), rtol=0, atol=0, equal_nan=True)


def assert_apart(dst, src):
    """Asserts, by writing to each side, that the other one does not change."""
    before = values_of(dst)
    _write(src)
    assert holds(dst, before), "a write to src is seen in dst"
    before = values_of(src)
    _write(dst)
    assert holds(src, before), "a write to dst is seen in src"


def _write(x):
    with torch.no_grad():
        for t in tensors_of(x):
            if isinstance(t, np.ndarray):
                t[...] = t == 0
            else:
                t.copy_(t == 0)


def assert_copied(dst, src):
    """Copies, and asserts that `dst` is itself, holds what `src` holds, and stays apart."""
    expected, kept = values_of(src), tensors_of(dst)
    versions = _versions(src)
    assert tc.copy_(dst, src) is dst
    assert all(now is then for now, then in zip(tensors_of(dst), kept, strict=True)), "dst has other tensors now"
    assert holds(dst, expected)
    assert holds(src, expected), "src was written"
    assert _versions(src) == versions, "src was written, and put back"
    assert_apart(dst, src)


def _versions(x):
    return [t._version for t in tensors_of(x) if isinstance(t, Tensor) and not t.is_inference()]


def assert_refused(call, dst, src, *arguments, match):
    """Asserts that the call raises one clear error and changes neither side, not even a version counter."""
    before = values_of(dst), values_of(src), _versions(dst), _versions(src)
    with pytest.raises(tc.InputError, match=match) as caught:
        call(dst, src, *arguments)
    assert holds(dst, before[0]), "dst was written"
    assert holds(src, before[1]), "src was written"
    assert (_versions(dst), _versions(src)) == before[2:]
    message = str(caught.value)
    assert all(len(line) < 400 for line in message.splitlines())
    return message
