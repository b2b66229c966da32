"""The ways to copy that the copying benchmark measures: this library's, PyTorch's, and those of its neighbours."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable
from typing import Any, Literal

import copying_calls as calls
import torch
from copying_workloads import Subject
from torch import Tensor, nn

from torchcopy._errors import MeasurementError

Makes = Literal["own", "lazy", "in place", "average"]
"""What comes out: a copy with bytes of its own, a lazy one, the values in memory that exists, or an average."""
Of = Literal["whole", "state"]
"""What is copied: the whole object, or its dict of tensors."""


@dataclasses.dataclass(frozen=True)
class Method:
    """One way to copy.

    Attributes:
        id: its name.
        label: the same for people, short; `{x}` stands for what is copied.
        code: the expression, `{x}` likewise.
        makes: what comes out.
        of: what is copied.
        prepare: sets up what is not timed, and returns the call that is.
        needs: the module that it comes from, if it is one that may be missing.
    """

    id: str
    label: str
    code: str
    makes: Makes
    of: Of
    prepare: Callable[[Subject], calls.Call]
    needs: str | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it is this library's."""
        return self.id.startswith("tc.")

    @property
    def missing(self) -> str | None:
        """Why it cannot be measured here; None where it can."""
        if self.needs is None:
            return None
        try:
            found = importlib.util.find_spec(self.needs)
        except ModuleNotFoundError:
            found = None
        return None if found is not None else f"{self.needs} is not installed"


_STAGING = "torch.distributed.checkpoint.staging"
_EMA = f"{1 - calls.EMA_WEIGHT:g}"

METHODS = {
    each.id: each
    for each in (
        # the whole object
        Method("deepcopy", "copy.deepcopy", "copy.deepcopy({x})", "own", "whole", calls.deepcopy),
        Method("tc.copy", "tc.copy({x})", "tc.copy({x})", "own", "whole", calls.tc_copy),
        Method("tc.fork", "tc.fork({x})", "tc.fork({x})", "lazy", "whole", calls.tc_fork),
        Method("copium", "copium.deepcopy", "copium.deepcopy({x})", "own", "whole", calls.copium, "copium"),
        # a state_dict, or a batch
        Method("deepcopy_state", "copy.deepcopy", "copy.deepcopy({x})", "own", "state", calls.deepcopy_state),
        Method("tc.copy_state", "tc.copy({x})", "tc.copy({x})", "own", "state", calls.tc_copy_state),
        Method("tc.fork_state", "tc.fork({x})", "tc.fork({x})", "lazy", "state", calls.tc_fork_state),
        Method(
            "clones", "{{k: v.clone()}}", "{{k: v.clone() for k, v in {x}.items()}}", "own", "state", calls.clones
        ),
        Method(
            "clones_each_once",
            "clones each once",
            "[t.clone() for t in tensors]",
            "own",
            "state",
            calls.clones_each_once,
        ),
        Method(
            "tensordict",
            "TensorDict.clone",
            "TensorDict({x}).clone()",
            "own",
            "state",
            calls.tensordict,
            "tensordict",
        ),
        Method(
            "optree", "optree.tree_map", "optree.tree_map(torch.clone, {x})", "own", "state", calls.optree, "optree"
        ),
        Method(
            "copium_state", "copium.deepcopy", "copium.deepcopy({x})", "own", "state", calls.copium_state, "copium"
        ),
        Method(
            "blocking_stager",
            "DCP async stager",
            "BlockingAsyncStager().stage({x})",
            "own",
            "state",
            calls.blocking_stager,
            _STAGING,
        ),
        # into memory that exists
        Method("limit", "the warm limit", "torch._foreach_copy_(warm, tensors)", "in place", "state", calls.limit),
        Method(
            "default_stager",
            "DefaultStager",
            "DefaultStager(…).stage({x}), again and again into the same memory",
            "in place",
            "state",
            calls.default_stager,
            _STAGING,
        ),
        Method("tc.copy_", "tc.copy_", "tc.copy_(other, {x})", "in place", "whole", calls.tc_copy_),
        Method(
            "copy_loop", "a loop of copy_", "for q, p in zip(…): q.copy_(p)", "in place", "whole", calls.copy_loop
        ),
        Method(
            "load_state_dict",
            "load_state_dict",
            "other.load_state_dict({x}.state_dict())",
            "in place",
            "whole",
            calls.load_state_dict,
        ),
        # averages
        Method(
            "tc.lerp_",
            "tc.lerp_",
            f"tc.lerp_(average, {{x}}, {calls.EMA_WEIGHT})",
            "average",
            "whole",
            calls.tc_lerp_,
        ),
        Method(
            "averaged_model",
            "AveragedModel",
            f"AveragedModel(…, multi_avg_fn=get_ema_multi_avg_fn({_EMA})).update_parameters({{x}})",
            "average",
            "whole",
            calls.averaged_model,
        ),
        Method(
            "averaged_buffers",
            "AM, use_buffers",
            f"AveragedModel(…, multi_avg_fn=get_ema_multi_avg_fn({_EMA}), use_buffers=True)"
            ".update_parameters({x})",
            "average",
            "whole",
            calls.averaged_buffers,
        ),
        Method(
            "lerp_loop",
            "a loop of lerp_",
            f"for q, p in zip(…): q.lerp_(p, {calls.EMA_WEIGHT})",
            "average",
            "whole",
            calls.lerp_loop,
        ),
    )
}
"""Every way to copy, by id."""

_WHOLE = ("deepcopy", "tc.copy", "tc.fork", "copium")
_STATE = (
    "deepcopy_state", "tc.copy_state", "tc.fork_state", "clones", "tensordict", "optree", "copium_state",
    "blocking_stager", "default_stager",
)  # fmt: skip
_INTO = ("tc.copy_", "copy_loop", "load_state_dict")
_AVERAGES = ("tc.lerp_", "averaged_model", "lerp_loop")

METHODS_FOR: dict[str, tuple[str, ...]] = {
    "W1": ("limit", *_WHOLE, *_STATE, "clones_each_once", *_INTO),
    "W2": ("limit", *_WHOLE, *_STATE, *_INTO, *_AVERAGES, "averaged_buffers"),
    "W3": ("limit", *_WHOLE, *_STATE, *_INTO, *_AVERAGES),
    "W4": ("limit", *_WHOLE),
    "W5": ("limit", *_STATE),
    "W6": _WHOLE,
    "tiny": ("limit", *_WHOLE, *_STATE, *_INTO, *_AVERAGES, "averaged_buffers"),
    "views": ("deepcopy_state", "tc.copy_state"),
}
"""The ways that are measured on each workload."""

_NAMES = {"whole": {"W4": "training", "W6": "tree"}, "state": {"W5": "batch", "views": "views"}}
_NAMES_ELSE = {"whole": "model", "state": "state_dict"}


def named(text: str, method: Method, workload: str) -> str:
    """A label or code with the name of what is copied in its place."""
    return text.format(x=_NAMES[method.of].get(workload, _NAMES_ELSE[method.of]))


def missing(workloads: list[str]) -> dict[str, str]:
    """Methods that cannot be measured here, with the reason."""
    ids = dict.fromkeys(m for workload in workloads for m in METHODS_FOR[workload])
    return {m: reason for m in ids if (reason := METHODS[m].missing) is not None}


# --- whether it does what it says ----------------------------------------------------------------------------


def check(subject: Subject, method: Method, result: Any) -> None:
    """Refuses a result that is not what the method is said to make: other values, or memory that is shared.

    Raises:
        MeasurementError: it is not.
    """
    sources, found = _pairs(subject, method, result)
    if len(sources) != len(found):
        raise MeasurementError(f"{len(found)} tensors came out of {len(sources)}")
    for source, made in zip(sources, found, strict=True):
        if method.makes == "average":
            if not torch.allclose(made, calls.EMA_WEIGHT * source):
                raise MeasurementError("the average has other values than it should")
        elif not torch.equal(source, made):
            raise MeasurementError("the copy has other values than its source")
        if method.makes != "lazy" and source.numel() and source.data_ptr() == made.data_ptr():
            raise MeasurementError("the copy shares memory with its source")


def _pairs(subject: Subject, method: Method, result: Any) -> tuple[list[Tensor], list[Tensor]]:
    if method.makes == "average":  # buffers are averaged by some, copied by others
        return list(subject.whole.parameters()), list(result.parameters())
    if isinstance(result, list):
        return subject.tensors, result
    if subject.state is not None and not isinstance(result, nn.Module):
        return list(subject.state.values()), [result[name] for name in subject.state]
    return subject.tensors_of(subject.whole), subject.tensors_of(result)
