"""The calls that the copying benchmark times: each function prepares what is not timed, and returns what is."""

from __future__ import annotations

import copy
import importlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from copying_workloads import Subject
from torch import Tensor, nn

import torchcopy as tc
from torchcopy import _torch_private

Call = Callable[[], Any]
EMA_WEIGHT = 0.001

# --- the whole object ----------------------------------------------------------------------------------------


def deepcopy(subject: Subject) -> Call:
    return lambda: copy.deepcopy(subject.whole)


def tc_copy(subject: Subject) -> Call:
    return lambda: tc.copy(subject.whole)


def tc_fork(subject: Subject) -> Call:
    return lambda: tc.fork(subject.whole)


def copium(subject: Subject) -> Call:
    return _copium_of(subject.whole)


# --- a state_dict, or a batch --------------------------------------------------------------------------------


def _state(subject: Subject) -> dict[str, Tensor]:
    if subject.state is None:
        raise ValueError("this workload has no dict of tensors")
    return subject.state


def deepcopy_state(subject: Subject) -> Call:
    state = _state(subject)
    return lambda: copy.deepcopy(state)


def tc_copy_state(subject: Subject) -> Call:
    state = _state(subject)
    return lambda: tc.copy(state)


def tc_fork_state(subject: Subject) -> Call:
    state = _state(subject)
    return lambda: tc.fork(state)


def clones(subject: Subject) -> Call:
    state = _state(subject)
    return lambda: {k: v.clone() for k, v in state.items()}


def clones_each_once(subject: Subject) -> Call:
    tensors = subject.tensors
    return lambda: [t.clone() for t in tensors]


def tensordict(subject: Subject) -> Call:
    tensor_dict = importlib.import_module("tensordict").TensorDict(_state(subject))
    return lambda: tensor_dict.clone()


def optree(subject: Subject) -> Call:
    tree_map, state = importlib.import_module("optree").tree_map, _state(subject)
    return lambda: tree_map(torch.clone, state)


def copium_state(subject: Subject) -> Call:
    return _copium_of(_state(subject))


def _copium_of(obj: Any) -> Call:
    copium_deepcopy = importlib.import_module("copium").deepcopy
    try:
        copium_deepcopy(obj)
    except KeyError:  # its own, faster memo takes only ints; PyTorch's `Tensor.__deepcopy__` puts text into it
        return lambda: copium_deepcopy(obj, {})
    return lambda: copium_deepcopy(obj)


def blocking_stager(subject: Subject) -> Call:
    """What `torch.distributed.checkpoint.async_save` uses by default."""
    staging = importlib.import_module("torch.distributed.checkpoint.staging")
    stager, state = staging.BlockingAsyncStager(), _state(subject)
    return lambda: stager.stage(state)


# --- into memory that exists already -------------------------------------------------------------------------


def limit(subject: Subject) -> Call:
    sources = subject.tensors
    warm = [torch.zeros_like(t) for t in sources]

    def call() -> list[Tensor]:
        _torch_private.foreach_copy_(warm, sources)
        return warm

    return call


def default_stager(subject: Subject) -> Call:
    """It stages into the same memory again and again, which lives as long as what it returned."""
    staging = importlib.import_module("torch.distributed.checkpoint.staging")
    options = staging.StagingOptions(
        use_pinned_memory=False, use_shared_memory=False, use_async_staging=False, use_non_blocking_copy=False
    )
    stager, state = staging.DefaultStager(options), _state(subject)
    return lambda: stager.stage(state)


def _zeros_like(model: nn.Module) -> nn.Module:
    """A model like this one, with memory of its own that has been written, and other values."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for t in _parts(other):
            t.zero_()
    return other


def _parts(model: nn.Module) -> Iterator[Tensor]:
    return itertools.chain(model.parameters(), model.buffers())


def tc_copy_(subject: Subject) -> Call:
    other, model = _zeros_like(subject.whole), subject.whole
    return lambda: tc.copy_(other, model)


def copy_loop(subject: Subject) -> Call:
    other, model = _zeros_like(subject.whole), subject.whole

    def call() -> nn.Module:
        with torch.no_grad():
            for target, source in zip(_parts(other), _parts(model), strict=True):
                target.copy_(source)
        return other

    return call


def load_state_dict(subject: Subject) -> Call:
    other, model = _zeros_like(subject.whole), subject.whole

    def call() -> nn.Module:
        other.load_state_dict(model.state_dict())
        return other

    return call


# --- averages ------------------------------------------------------------------------------------------------


def tc_lerp_(subject: Subject) -> Call:
    average, model = _zeros_like(subject.whole), subject.whole

    def call() -> nn.Module:
        tc.lerp_(average, model, EMA_WEIGHT)
        return average

    return call


def averaged_model(subject: Subject) -> Call:
    return _averaged_model(subject, use_buffers=False)


def averaged_buffers(subject: Subject) -> Call:
    return _averaged_model(subject, use_buffers=True)


def _averaged_model(subject: Subject, *, use_buffers: bool) -> Call:
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    model = subject.whole
    averaging = get_ema_multi_avg_fn(1 - EMA_WEIGHT)  # type: ignore[no-untyped-call]
    average = AveragedModel(model, multi_avg_fn=averaging, use_buffers=use_buffers)
    average.update_parameters(model)  # the first one copies
    with torch.no_grad():
        for p in average.module.parameters():
            p.zero_()

    def call() -> nn.Module:
        average.update_parameters(model)
        averaged: nn.Module = average.module
        return averaged

    return call


def lerp_loop(subject: Subject) -> Call:
    average, model = _zeros_like(subject.whole), subject.whole

    def call() -> nn.Module:
        with torch.no_grad():
            for target, source in zip(_parts(average), _parts(model), strict=True):
                if target.is_floating_point():
                    target.lerp_(source, EMA_WEIGHT)
                else:
                    target.copy_(source)
        return average

    return call
