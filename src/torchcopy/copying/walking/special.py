"""Objects that are copied by a rule of ours, because `copy.deepcopy` refuses them or gets them wrong."""

from __future__ import annotations

import copyreg
import enum
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from ... import _torch_private
from ..refusals import Uncopyable, fake_tensor_modes, is_connection
from ..tensors.opaque import place_alone
from .instances import is_by_dict, is_parametrized, new_module
from .optimizers import copy_optimizer, copy_scheduler
from .protocol import call_foreign, copy_by_protocol
from .quantization import copy_maker, observer_makers

if TYPE_CHECKING:
    from .walk import Walk

Rule = Callable[["Walk", Any], Any]
"""Makes the copy of an object during a walk."""


def special_rule(cls: type) -> Rule | None:
    """The rule for instances of `cls`, or None if they are copied as Python objects are."""
    if issubclass(cls, Tensor):
        return _tensor_rule(cls)
    if issubclass(cls, Optimizer):
        return copy_optimizer
    if issubclass(cls, LRScheduler):
        return copy_scheduler
    if is_parametrized(cls):
        return _copy_parametrized
    if issubclass(cls, torch.jit.ScriptModule) and _leaves_copying_to_torch(cls):
        return _copy_scripted
    if _is_recurrent(cls):
        return _copy_recurrent
    for known, rule in _RULES.items():
        if issubclass(cls, known):
            return rule
    compiled = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", None)
    if compiled is not None and issubclass(cls, compiled):
        return _copy_compiled
    if issubclass(cls, fake_tensor_modes()):
        return _keep_mode
    if issubclass(cls, observer_makers()):
        return copy_maker
    if is_connection(cls):
        return _refuse_connection
    return None


def _is_recurrent(cls: type) -> bool:
    """Whether `cls` is a recurrent module that leaves it to PyTorch how its weak references are copied."""
    return issubclass(cls, nn.RNNBase) and all(
        getattr(cls, name) is getattr(nn.RNNBase, name) for name in ("__getstate__", "__setstate__")
    )


def _leaves_copying_to_torch(cls: type[torch.jit.ScriptModule]) -> bool:
    torch_jit: Any = torch.jit
    own = torch_jit.RecursiveScriptModule.__deepcopy__
    return getattr(cls, "__deepcopy__", None) in (None, own)  # a traced one asks the scripted one in it


# --- tensors of other classes --------------------------------------------------------------------------------


def _tensor_rule(cls: type[Tensor]) -> Rule:
    if issubclass(cls, (nn.parameter.UninitializedParameter, nn.parameter.UninitializedBuffer)):
        return _copy_uninitialized
    own_copy = cls.__deepcopy__ not in (Tensor.__deepcopy__, nn.Parameter.__deepcopy__)
    if own_copy:
        return _copy_by_own_deepcopy
    if cls.__torch_dispatch__ is not Tensor.__torch_dispatch__ or copyreg._slotnames(cls):  # type: ignore[attr-defined]
        return _copy_by_own_clone
    return _copy_relabelled


def _copy_relabelled(walk: Walk, x: Tensor) -> Tensor:
    """A subclass that only adds Python: an ordinary tensor of that class."""
    with _torch_private.without_torch_function():
        return walk.tensors.now(x, plain=x.as_subclass(Tensor))


def _copy_by_own_deepcopy(walk: Walk, x: Tensor) -> Tensor:
    """By the class's `__deepcopy__`; what that makes is no way back to the source."""
    copied: Tensor = call_foreign(walk, x, lambda: cast(Any, x).__deepcopy__(walk.memo))
    walk.kept.pop(id(copied), None)
    return copied


def _copy_uninitialized(walk: Walk, x: Tensor) -> Tensor:
    """A tensor of a lazy module: `copy.deepcopy` refuses such a buffer, and forgets a parameter's attributes."""
    request = walk.request
    floating = x.is_floating_point() or x.is_complex()
    with _torch_private.without_torch_function():
        dtype = request.dtype if request.dtype is not None and x.is_floating_point() else x.dtype
        data = torch.empty(0, dtype=dtype, device=x.device if request.device is None else request.device)
        wanted = x.requires_grad if request.requires_grad is None else request.requires_grad and floating
        y = Tensor._make_subclass(type(x), data, wanted)
    walk.remember(x, y)
    if walk.inside_optimizer:
        walk.tensors.found_in_optimizer[id(x)] = x
    walk.items(x.__dict__, y.__dict__)
    return y


def _copy_by_own_clone(walk: Walk, x: Tensor) -> Tensor:
    """By the class's `detach` and `clone`, as `copy.deepcopy` does for wrappers of other tensors."""
    request = walk.request
    walk.check_rest()
    walk.show_all()
    with torch.no_grad():
        detached = x.detach()
        copied = detached if request.memory == "share" else place_alone(detached, request)
    if type(copied) is not type(x):
        raise Uncopyable(x, f"its `clone()` returns a {type(copied).__name__}: define `__deepcopy__` on the class")
    wanted = x.requires_grad and x.is_leaf if request.requires_grad is None else request.requires_grad
    copied.requires_grad_(wanted and (copied.is_floating_point() or copied.is_complex()))
    walk.remember(x, copied)
    walk.tensors.done.append(x)
    if request.memory != "share":
        for name in copyreg._slotnames(type(x)):  # type: ignore[attr-defined]
            # What was converted knows its dtype and device itself; the rest is copied, as `copy.deepcopy` does.
            if hasattr(x, name) and not (request.places and hasattr(copied, name) and not _is_tensor(x, name)):
                setattr(copied, name, walk.deep(getattr(x, name)))
        if x.__dict__:
            copied.__dict__.clear()
            walk.items(x.__dict__, copied.__dict__)
    if request.grad and x.is_leaf and x.grad is not None:
        copied.grad = walk.deep(x.grad)
    return copied


def _is_tensor(x: object, name: str) -> bool:
    return isinstance(getattr(x, name), Tensor)


# --- modules -------------------------------------------------------------------------------------------------


def _copy_recurrent(walk: Walk, x: nn.RNNBase) -> nn.RNNBase:
    """A recurrent module: its weak references have to lead to the new weights."""
    y: nn.RNNBase = new_module(type(x))
    walk.remember(x, y)
    walk.items({name: None if name == "_flat_weight_refs" else value for name, value in vars(x).items()}, vars(y))
    if "_flat_weight_refs" in vars(x):

        def refer() -> None:
            y._flat_weight_refs = [None if w is None else weakref.ref(w) for w in y._flat_weights]

        walk.after.append(refer)
    return y


def _copy_parametrized(walk: Walk, x: nn.Module) -> nn.Module:
    """A parametrized module, with a class of its own.

    PyTorch makes a class for each such module, holds a property there for each parametrized tensor, and takes it
    away again: what is parametrized, or no longer, on one module must not change the class of another.
    """
    cls: Any = type(x)
    y: nn.Module
    if _is_recurrent(cls.__bases__[0]):
        y = _copy_recurrent(walk, cast(nn.RNNBase, x))
    elif is_by_dict(cls) and not vars(x).keys() & {"__deepcopy__", "__reduce_ex__", "__getstate__"}:
        y = new_module(cls)
        walk.remember(x, y)
        walk.items({name: value for name, value in vars(x).items() if name != "_compiled_call_impl"}, vars(y))
    else:
        y = copy_by_protocol(walk, x, cls)
    if type(y) is cls and y is not x:
        own = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
        y.__class__ = type(cls)(cls.__name__, cls.__bases__, own)  # type: ignore[misc]
    return y


def _copy_scripted(walk: Walk, x: torch.jit.ScriptModule) -> Any:
    """A module of TorchScript: PyTorch copies it without looking at what was copied before, nor at what was asked.

    The tensors in its copy are replaced by those of the walk: an optimizer's parameters, or a tied weight.
    """
    y = call_foreign(walk, x, lambda: cast(Any, x).__deepcopy__(walk.memo))
    for (_, source), (_, copied) in zip(x.named_modules(), y.named_modules(), strict=True):
        for tensors in (source.named_parameters(recurse=False), source.named_buffers(recurse=False)):
            for name, t in tensors:
                setattr(copied, name, walk.deep_now(t))
    return y


def _keep_function(walk: Walk, x: object) -> Any:
    """A function of TorchScript: kept by reference, as those of Python are."""
    return walk.keep(x)


def _copy_compiled(walk: Walk, x: Any) -> Any:
    """A compiled module: the module in it is copied, and compiled again, the same way, when it first runs."""
    cls: Any = type(x)
    y = cls.__new__(cls)
    walk.remember(x, y)
    state = x.__getstate__()
    context = state.pop("dynamo_ctx", None)
    copied: dict[str, Any] = {}
    before, walk.may_set_later = walk.may_set_later, False
    walk.items(state, copied)
    walk.may_set_later = before
    y.__setstate__({**copied, "dynamo_ctx": context})
    return y


# --- other things of PyTorch's and NumPy's -------------------------------------------------------------------


def _copy_storage(walk: Walk, x: torch.UntypedStorage) -> torch.UntypedStorage:
    """A storage by itself: it is that of the copied tensors too, if some view it."""
    whole = torch.empty(0, dtype=torch.uint8, device=x.device).set_(x)
    y: torch.UntypedStorage = walk.copy_within(whole).untyped_storage()
    walk.remember(x, y)
    return y


def _copy_typed_storage(walk: Walk, x: torch.TypedStorage) -> torch.TypedStorage:
    untyped = x._untyped_storage
    copied = _copy_storage(walk, untyped) if id(untyped) not in walk.memo else walk.memo[id(untyped)]
    make: Any = torch.TypedStorage  # untyped itself
    y: torch.TypedStorage = make(wrap_storage=copied, dtype=x.dtype, _internal=True)
    walk.remember(x, y)
    return y


def _copy_generator(walk: Walk, x: torch.Generator) -> torch.Generator:
    y = x.clone_state()
    walk.remember(x, y)
    return y


def _copy_packed(walk: Walk, x: nn.utils.rnn.PackedSequence) -> Any:
    """Packed sequences, on whatever device: the sizes of their batches stay on the host, as PyTorch wants it."""
    sizes = x.batch_sizes
    if walk.request.device is not None and id(sizes) not in walk.memo:
        walk.remember(sizes, sizes.clone())
    return copy_by_protocol(walk, x, type(x))


def _copy_scaler(walk: Walk, x: torch.amp.GradScaler) -> Any:
    if x._enabled and x._per_optimizer_states:
        reason = "its step is not over: copy it before `unscale_` and `step`, or after `update`"
        raise Uncopyable(x, reason)
    return copy_by_protocol(walk, x, type(x))


def _copy_array(walk: Walk, x: np.ndarray[Any, Any]) -> Any:
    if type(x) is not np.ndarray:
        return copy_by_protocol(walk, x, type(x))
    if x.dtype == object:
        return _copy_array_of_objects(walk, x)
    if x.dtype.hasobject:
        return _copy_array_of_records(walk, x)
    walk.tensors.will_take(x.nbytes)
    y = x.view() if walk.request.memory == "share" else x.copy(order="K")
    walk.remember(x, y)
    return y


def _copy_array_of_objects(walk: Walk, x: np.ndarray[Any, Any]) -> Any:
    """Element by element, by our rules: NumPy would ask `copy.deepcopy`, which refuses some tensors."""
    flat = np.empty(x.size, dtype=object)
    y = flat.reshape(x.shape, order="F" if x.flags.fnc else "C")
    walk.remember(x, y)
    for k, item in enumerate(x.ravel(order="F" if x.flags.fnc else "C")):
        flat[k] = walk.deep_now(item)
    return y


def _copy_array_of_records(walk: Walk, x: np.ndarray[Any, Any]) -> Any:
    """The same for the fields that hold objects."""
    y = x.copy(order="K")
    walk.remember(x, y)
    todo = [y]
    while todo:
        fields = todo.pop()
        names = fields.dtype.names or ()
        todo += [fields[name] for name in names if fields.dtype[name].hasobject]
        if fields.dtype == object:
            for index in np.ndindex(fields.shape):
                fields[index] = walk.deep_now(fields[index])
    return y


def _copy_member(walk: Walk, x: enum.Enum) -> Any:
    if type(x).__deepcopy__ is enum.Enum.__deepcopy__:
        return x
    return copy_by_protocol(walk, x, type(x))


def _keep_mode(walk: Walk, x: object) -> Any:  # noqa: ARG001
    """The mode that fake tensors were made in: those of one mode work together, and their copies are of it too."""
    return x


def _refuse_connection(walk: Walk, x: object) -> Any:  # noqa: ARG001
    raise Uncopyable(x, "it stands for something outside this program's memory")


_RULES: dict[type, Rule] = {
    torch.Generator: _copy_generator,
    torch.UntypedStorage: _copy_storage,
    torch.TypedStorage: _copy_typed_storage,
    torch.amp.GradScaler: _copy_scaler,
    np.ndarray: _copy_array,
    enum.Enum: _copy_member,
    nn.utils.rnn.PackedSequence: _copy_packed,
    torch.jit.ScriptFunction: _keep_function,
}
if not hasattr(enum.Enum, "__deepcopy__"):  # Python before 3.11.4
    del _RULES[enum.Enum]
