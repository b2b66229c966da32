"""Nodes of autograd graphs: which number the next one gets, which one runs, and what it has saved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

_C: Any = torch._C

next_node_number = _C._autograd._get_sequence_nr
"""The number that the next node made on this thread gets: `node._sequence_nr()`."""

_RUNNING = frozenset({"running_mean", "running_var"})
_SAVED: dict[type, tuple[str, ...]] = {}


def running_node() -> Any:
    """The node whose backward runs on this thread; None outside of one."""
    return _C._current_autograd_node()


def node_number(node: Any) -> int:
    """When the node was made, among those of its thread; enormous for those that accumulate gradients."""
    return int(node._sequence_nr())


def saved_values(node: Any) -> Iterator[tuple[str, Tensor]]:
    """What a node has saved for its backward, by name. Runs no hook, and says nothing of what a hook has packed.

    A value that was overwritten in the meantime comes as it is now, whether PyTorch has noticed or not. None come
    from nodes that have run their backward and freed what they had saved.
    """
    kind = type(node)
    names = _SAVED.get(kind)
    if names is None:
        names = _SAVED[kind] = tuple(name for name in dir(node) if name.startswith("_raw_saved_"))
    for name in names:
        try:
            raw = getattr(node, name)
        except RuntimeError:  # freed
            continue
        for each in raw if isinstance(raw, (tuple, list)) else (raw,):
            try:
                if each.unpack_hook is None and isinstance(value := each.data, Tensor):
                    yield name.removeprefix("_raw_saved_"), value
            except (AttributeError, RuntimeError):
                continue


def is_used(node: Any, name: str) -> bool:
    """Whether the backward of a node uses what it has saved: a batch norm's not the statistics, in training."""
    return name not in _RUNNING or not getattr(node, "_saved_training", False)


def was_noticed(node: Any, name: str) -> bool:
    """Whether PyTorch will refuse to run the node, because the version counter of what it saved has moved."""
    try:
        if name == "tensors" and hasattr(node, "saved_tensors"):
            node.saved_tensors  # noqa: B018
        else:
            getattr(node, f"_saved_{name}")
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return False
