"""The state_dict of a module with the parameters and buffers themselves in it, read as quickly as Python can.

`nn.Module.state_dict` costs two microseconds a module, most of it for hooks and overrides that hardly any has.
Those that have one are asked in the usual way.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any

from torch import Tensor, nn

_OWN_WAYS = ("state_dict", "_save_to_state_dict", "get_extra_state")


_usual: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def _reads_as_usual(cls: type[nn.Module]) -> bool:
    """Whether the class leaves all that makes a state_dict as PyTorch has it."""
    known = _usual.get(cls)
    if known is None:
        known = _usual[cls] = all(getattr(cls, name) is getattr(nn.Module, name) for name in _OWN_WAYS)
    return known


def module_state(module: nn.Module) -> tuple[Any, dict[str, Tensor]]:
    """What `module.state_dict(keep_vars=True)` returns, and the buffers that are not in it, by name."""
    others: dict[str, Tensor] = {}
    if type(module).state_dict is not nn.Module.state_dict or "state_dict" in module.__dict__:
        state = module.state_dict()
        _add_non_persistent(module, "", others)
        return state, others
    state = OrderedDict()
    state._metadata = OrderedDict()  # type: ignore[attr-defined]
    _read(module, "", state, state._metadata, others)  # type: ignore[attr-defined]
    return state, others


def _read(module: nn.Module, prefix: str, state: Any, metadata: Any, others: dict[str, Tensor]) -> None:
    own = module.__dict__
    if (
        own["_state_dict_hooks"]
        or own["_state_dict_pre_hooks"]
        or not _reads_as_usual(type(module))
        or not own.keys().isdisjoint(_OWN_WAYS)
    ):
        module.state_dict(destination=state, prefix=prefix, keep_vars=True)
        _add_non_persistent(module, prefix, others)
        return
    metadata[prefix[:-1]] = {"version": module._version}
    for name, t in own["_parameters"].items():
        if t is not None:
            state[prefix + name] = t
    buffers = own["_buffers"]
    if buffers:
        left_out = own["_non_persistent_buffers_set"]
        for name, t in buffers.items():
            if t is not None:
                (others if name in left_out else state)[prefix + name] = t
    for name, child in own["_modules"].items():
        if child is not None:
            _read(child, f"{prefix}{name}.", state, metadata, others)


def _add_non_persistent(module: nn.Module, prefix: str, others: dict[str, Tensor]) -> None:
    for path, m in module.named_modules(prefix=prefix.removesuffix(".")):
        for name in m._non_persistent_buffers_set:
            buffer = m._buffers.get(name)
            if buffer is not None:
                others[f"{path}.{name}" if path else name] = buffer
