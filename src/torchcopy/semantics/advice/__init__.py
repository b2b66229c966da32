"""From what a copy has to be, to the one expression to write: why, what to avoid, and what it costs here."""

from __future__ import annotations

import dataclasses

import torch

from ..._errors import InputError
from ..._tensors import format_bytes
from ..machine import memory_bytes
from ..sources import parse_dtype
from ..undisturbed import run_undisturbed
from .conversion import advise_conversion
from .nested import advise_nested
from .records import Advice, Graph, Memory, Needs, TimedChoice, Warned
from .tensor import advise_tensor

__all__ = ["Advice", "Graph", "Memory", "Needs", "TimedChoice", "Warned", "advise", "advise_on"]


def advise(
    *,
    graph: Graph = "detach",
    memory: Memory = "own",
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    numel: int = 2**20,
    nested: bool = False,
    hot_loop: bool = False,
) -> Advice:
    """Says which one expression makes the copy that is needed, and what it costs on this machine.

    The advice is checked before it is given: the recommended method is probed, and one that does not do here what
    is needed is not recommended. Tensors of the caller are neither shared, read nor changed; the graph of what is
    recommended is as `graph` says. Timing on CUDA synchronises the device.

    Args:
        graph: `"detach"`, or `"keep"` where gradients have to flow back to the source.
        memory: `"own"`, `"share"` or `"lazy"` (copy-on-write).
        device: where the copy has to be, if not where the source is.
        dtype: as what, if not as the source.
        numel: number of elements to take the timings with.
        nested: a model, a state_dict or a container rather than one tensor.
        hot_loop: again and again, with the same shapes.

    Raises:
        InputError: an answer is none of the possible ones, or two contradict each other.

    Example:
        >>> import torchcopy as tc
        >>> tc.advise(numel=1024).expression
        't.detach().clone()'
        >>> tc.advise(graph="keep", memory="share", numel=1024).expression
        't.view(t.shape)'
    """
    return advise_on(
        Needs(
            graph=graph,
            memory=memory,
            device=None if device is None else str(device),
            dtype=None if dtype is None else str(dtype),
            numel=numel,
            nested=nested,
            hot_loop=hot_loop,
        )
    )


def advise_on(needs: Needs) -> Advice:
    """The advice for needs that stand in a record. See `advise`."""
    _check_size(needs)
    return run_undisturbed(lambda: _advise(needs))


def _advise(needs: Needs) -> Advice:
    if needs.nested:
        return advise_nested(needs)
    advice = advise_conversion(needs) if needs.device or needs.dtype else advise_tensor(needs)
    return dataclasses.replace(advice, measured_on=f"{needs.numel:,} float32 elements")


def _check_size(needs: Needs) -> None:
    wanted = 4 * needs.numel * torch.empty(0, dtype=parse_dtype(needs.dtype or "float32")).element_size()
    available = memory_bytes()
    if available is not None and wanted > available:
        raise InputError(
            f"timing copies of {needs.numel} elements takes about {format_bytes(wanted)}, this machine has "
            f"{format_bytes(available)}: choose a smaller size"
        )
