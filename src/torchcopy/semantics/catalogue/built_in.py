"""The ways to copy a tensor that PyTorch, Python, numpy and this library offer, each named once, as data."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ... import _torch_private
from .import_spec import import_callable
from .method import CopyMethod


def other_dtype(dtype: torch.dtype) -> torch.dtype:
    """A dtype that is not `dtype` and holds all its values, except for the widest ones."""
    if dtype.is_complex:
        return torch.complex64 if dtype == torch.complex128 else torch.complex128
    if dtype.is_floating_point:
        return torch.float32 if dtype == torch.float64 else torch.float64
    return torch.int32 if dtype == torch.int64 else torch.int64


def _foreach_copy(t: Tensor) -> Tensor:
    with torch.no_grad():
        out = torch.empty_like(t)
        _torch_private.foreach_copy_([out], [t])
    return out


class _Holder(nn.Module):
    """A module that holds one tensor: a parameter where it can be one, else a buffer."""

    def __init__(self, t: Tensor, like: Tensor) -> None:
        super().__init__()
        if like.is_leaf and (like.requires_grad or isinstance(like, nn.Parameter)):
            self.t = t if isinstance(t, nn.Parameter) else nn.Parameter(t, requires_grad=like.requires_grad)
        else:
            self.register_buffer("t", t)


def _state_dict_load(t: Tensor) -> Tensor:
    model = _Holder(t, like=t)
    new = _Holder(torch.empty_like(t, requires_grad=False), like=t)
    new.load_state_dict(model.state_dict())
    result = new.t
    assert isinstance(result, Tensor)
    return result


def _named(spec: str) -> Callable[[Tensor], Tensor]:
    """What `spec` names, imported at its first call: the catalogue knows the method, not the room it lives in."""
    found = functools.cache(lambda: import_callable(spec, "method"))

    def run(t: Tensor) -> Tensor:
        copied: Tensor = found()(t)
        return copied

    return run


BUILT_IN = (
    CopyMethod(
        "assignment",
        "t",
        lambda t: t,
        "Give the tensor a second name. Nothing is copied.",
        "detach_clone",
        "Both names are one tensor: a write through either is a write to both.",
    ),
    CopyMethod(
        "copy.copy",
        "copy.copy(t)",
        copy.copy,
        "A new Python object on the same storage.",
        "detach",
        "Shares memory and silently drops the graph while `requires_grad` stays set; fails on float8 and uint16.",
    ),
    CopyMethod(
        "detach",
        "t.detach()",
        lambda t: t.detach(),
        "Use the values outside the graph without copying them.",
        None,
        "Shares memory and the version counter: autograd notices an in-place write and raises.",
    ),
    CopyMethod(
        "data",
        "t.data",
        lambda t: t.data,
        "The old way to reach the values outside the graph.",
        "detach",
        "It hides writes from autograd: a gradient can be silently wrong where `detach()` raises.",
    ),
    CopyMethod(
        "view",
        "t.view(t.shape)",
        lambda t: t.view(t.shape),
        "Another name for the same memory, in the graph.",
        None,
        "Shares memory and the version counter; gradients flow back to the source.",
    ),
    CopyMethod(
        "clone",
        "t.clone()",
        lambda t: t.clone(),
        "Own memory, in the graph: gradients flow back to the source.",
        None,
        "The copy for values that are used further in the same computation.",
    ),
    CopyMethod(
        "detach_clone",
        "t.detach().clone()",
        lambda t: t.detach().clone(),
        "An independent copy: own memory, outside the graph.",
        None,
        "The default choice for keeping values.",
    ),
    CopyMethod(
        "clone_detach",
        "t.clone().detach()",
        lambda t: t.clone().detach(),
        "An independent copy, by way of the graph.",
        "detach_clone",
        "Same result, but autograd first records a node and then drops it.",
    ),
    CopyMethod(
        "empty_like_copy_",
        "torch.empty_like(t).copy_(t)",
        lambda t: torch.empty_like(t).copy_(t),
        "Allocate, then fill; in the graph.",
        "clone",
        "Does what `clone()` does in two steps; `copy_` is worth it into a buffer that already exists.",
    ),
    CopyMethod(
        "tensor",
        "torch.tensor(t)",
        lambda t: torch.tensor(t),
        "Build a tensor from Python data; also takes a tensor.",
        "detach_clone",
        "Warns on every tensor it is given; it is meant for numbers, lists and arrays.",
    ),
    CopyMethod(
        "new_tensor",
        "t.new_tensor(t)",
        lambda t: t.new_tensor(t),
        "Build a tensor with the dtype and device of another.",
        "detach_clone",
        "Warns on every tensor it is given; it is meant for numbers, lists and arrays.",
    ),
    CopyMethod(
        "tensor_requires_grad",
        "torch.tensor(t, requires_grad=True)",
        lambda t: torch.tensor(t, requires_grad=True),
        "A new leaf with the same values.",
        "detach_clone",
        "Warns; `t.detach().clone().requires_grad_()` makes the same leaf.",
    ),
    CopyMethod(
        "new_tensor_requires_grad",
        "t.new_tensor(t, requires_grad=True)",
        lambda t: t.new_tensor(t, requires_grad=True),
        "A new leaf with the same values.",
        "detach_clone",
        "Warns; `t.detach().clone().requires_grad_()` makes the same leaf.",
    ),
    CopyMethod(
        "deepcopy",
        "copy.deepcopy(t)",
        copy.deepcopy,
        "Copy an object with everything it holds.",
        "detach_clone",
        "Refuses non-leaf tensors, and a small view brings its whole storage along.",
    ),
    CopyMethod(
        "to",
        "t.to(t.dtype)",
        lambda t: t.to(t.dtype),
        "Convert dtype or device where needed; here nothing is.",
        None,
        "Returns the tensor itself when it already fits: not a copy.",
    ),
    CopyMethod(
        "to_other_dtype",
        "t.to(other_dtype)",
        lambda t: t.to(other_dtype(t.dtype)),
        "Convert to another dtype.",
        None,
        "A copy, because the dtype differs; stays in the graph.",
    ),
    CopyMethod(
        "to_copy",
        "t.to(t.device, copy=True)",
        lambda t: t.to(t.device, copy=True),
        "Convert, and copy even when nothing has to be converted.",
        None,
        "The one to use for 'a copy there', in one pass; stays in the graph.",
    ),
    CopyMethod(
        "contiguous",
        "t.contiguous()",
        lambda t: t.contiguous(),
        "Row-major memory, copied only when it is not.",
        None,
        "Returns the tensor itself when it is contiguous: not a copy.",
    ),
    CopyMethod(
        "reshape",
        "t.reshape(t.shape)",
        lambda t: t.reshape(t.shape),
        "Another shape, as a view where strides allow it.",
        None,
        "A view or a copy, depending on the strides: never rely on either.",
    ),
    CopyMethod(
        "asarray",
        "torch.asarray(t)",
        lambda t: torch.asarray(t),
        "A tensor from anything array-like, without a copy where possible.",
        None,
        "Shares memory with a tensor that it is given: not a copy.",
    ),
    CopyMethod(
        "asarray_copy",
        "torch.asarray(t, copy=True)",
        lambda t: torch.asarray(t, copy=True),
        "A tensor from anything array-like, in memory of its own.",
        None,
        "For input that may be an array or a list as well; say `requires_grad=` too.",
    ),
    CopyMethod(
        "numpy_roundtrip",
        "torch.from_numpy(t.detach().cpu().numpy())",
        lambda t: torch.from_numpy(t.detach().cpu().numpy()),
        "Through numpy and back.",
        "detach_clone",
        "On the CPU nothing is copied: all three share one memory.",
    ),
    CopyMethod(
        "lazy_clone",
        "torch._lazy_clone(t)",
        _torch_private.strict_lazy_clone,
        "Copy-on-write: bytes are copied when either side is first written.",
        None,
        "Private API of PyTorch; raises for complex tensors in a graph; an old numpy view still writes into both.",
    ),
    CopyMethod(
        "detach_lazy_clone",
        "torch._lazy_clone(t.detach())",
        lambda t: _torch_private.strict_lazy_clone(t.detach()),
        "Copy-on-write, outside the graph.",
        None,
        "Private API of PyTorch; a raw pointer taken earlier (an old numpy view) still writes into both.",
    ),
    CopyMethod(
        "foreach_copy_",
        "torch._foreach_copy_([out], [t])",
        _foreach_copy,
        "Copy many tensors into existing ones, in one call, under `no_grad`.",
        None,
        "Pays off for many tensors and warm buffers; outside `no_grad` its backward raises.",
    ),
    CopyMethod(
        "state_dict_load",
        "new.load_state_dict(model.state_dict())",
        _state_dict_load,
        "Fill a new module with the values of another.",
        None,
        "Parameters and buffers only: hooks, attributes and the optimizer stay behind.",
    ),
    CopyMethod(
        "tc.copy",
        "tc.copy(t)",
        _named("torchcopy:copy"),
        "An independent copy of anything: a tensor, a model, a training state; own memory, outside the graph.",
        None,
        "Takes non-leaf tensors, keeps type and attributes, and of a view copies what it views; some µs a call.",
    ),
    CopyMethod(
        "tc.fork",
        "tc.fork(t)",
        _named("torchcopy:fork"),
        "Copy-on-write for anything, outside the graph, safe across threads.",
        None,
        "The first write copies; a raw pointer taken earlier (an old numpy view) still writes into both.",
    ),
)
