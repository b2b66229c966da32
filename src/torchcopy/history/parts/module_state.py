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


def module_state(module: nn.Module) -> tuple[Any, dict[str, Tensor], list[str]]:
    """What `module.state_dict(keep_vars=True)` returns; the buffers outside of it; the names of those not set."""
    others: dict[str, Tensor] = {}
    absent: list[str] = []
    if type(module).state_dict is not nn.Module.state_dict or "state_dict" in module.__dict__:
        state = module.state_dict()
        _add_the_rest(module, "", others, absent)
        return state, others, absent
    state = OrderedDict()
    state._metadata = OrderedDict()  # type: ignore[attr-defined]
    _read(module, "", state, state._metadata, others, absent)  # type: ignore[attr-defined]
    return state, others, absent


def _read(
    module: nn.Module, prefix: str, state: Any, metadata: Any, others: dict[str, Tensor], absent: list[str]
) -> None:
    own = module.__dict__
    if (
        own["_state_dict_hooks"]
        or own["_state_dict_pre_hooks"]
        or not _reads_as_usual(type(module))
        or not own.keys().isdisjoint(_OWN_WAYS)
    ):
        module.state_dict(destination=state, prefix=prefix, keep_vars=True)
        _add_the_rest(module, prefix, others, absent)
        return
    metadata[prefix[:-1]] = {"version": module._version}
    for name, t in own["_parameters"].items():
        if t is not None:
            state[prefix + name] = t
    buffers = own["_buffers"]
    if buffers:
        left_out = own["_non_persistent_buffers_set"]
        for name, t in buffers.items():
            if t is None:
                absent.append(prefix + name)
            else:
                (others if name in left_out else state)[prefix + name] = t
    for name, child in own["_modules"].items():
        if child is not None:
            _read(child, f"{prefix}{name}.", state, metadata, others, absent)


def _add_the_rest(module: nn.Module, prefix: str, others: dict[str, Tensor], absent: list[str]) -> None:
    for path, m in module.named_modules(prefix=prefix.removesuffix(".")):
        for name, t in m._buffers.items():
            if t is None:
                absent.append(f"{path}.{name}" if path else name)
            elif name in m._non_persistent_buffers_set:
                others[f"{path}.{name}" if path else name] = t
