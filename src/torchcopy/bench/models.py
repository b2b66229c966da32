"""Ways to copy a whole model: its weights, or the module with them."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .. import _torch_private
from .._errors import InputError
from .._tensors import describe, dtype_name, first_byte, format_bytes, has_storage
from ..copying.copy_on_write.anchors import let_go
from ..copying.deep_copy import copy as tc_copy
from ..copying.deep_copy import fork
from ..copying.in_place import copy_ as tc_copy_
from ..copying.in_place import lerp_ as tc_lerp_
from ..semantics.catalogue import import_callable
from ..semantics.machine import describe_machine
from ..semantics.sources import parse_device, parse_dtype
from .cases import Case, Method
from .compare import check_comparable
from .limit import list_limit
from .neighbours import watch_neighbours
from .preflight import check_max_seconds, check_memory
from .records import BenchReport, Memory
from .runner import run_cases
from .tensors import look_at_tensor

Factory = Callable[[], nn.Module]


@dataclasses.dataclass(frozen=True)
class Subject:
    """A model that is being copied.

    Attributes:
        model: the module.
        build: makes another one like it, or None where nobody said how.
    """

    model: nn.Module
    build: Factory | None


def _deepcopy_model(subject: Subject) -> Callable[[], object]:
    return lambda: copy.deepcopy(subject.model)


def _deepcopy_state_dict(subject: Subject) -> Callable[[], object]:
    return lambda: copy.deepcopy(subject.model.state_dict())


def _clone_dict(subject: Subject) -> Callable[[], object]:
    return lambda: {name: t.detach().clone() for name, t in subject.model.state_dict().items()}


def _load_state_dict(subject: Subject) -> Callable[[], object]:
    build, device = subject.build, next(iter(state_tensors(subject.model).values())).device
    if build is None:
        raise TypeError("it needs a factory that makes a new module: pass `factory=`")

    def call() -> nn.Module:
        new = build().to(device)
        new.load_state_dict(subject.model.state_dict())
        return new

    return call


def _foreach_copy(subject: Subject) -> Callable[[], object]:
    warm = [torch.empty_like(t).copy_(t) for t in _values(subject.model)]

    def call() -> list[Tensor]:
        with torch.no_grad():
            _torch_private.foreach_copy_(warm, _values(subject.model))
        return warm

    return call


def _lazy_clones(subject: Subject) -> Callable[[], object]:
    return lambda: {name: _torch_private.strict_lazy_clone(t) for name, t in subject.model.state_dict().items()}


def _tc_copy_model(subject: Subject) -> Callable[[], object]:
    return lambda: tc_copy(subject.model)


def _tc_copy_state_dict(subject: Subject) -> Callable[[], object]:
    return lambda: tc_copy(subject.model.state_dict())


def _tc_copy_into_model(subject: Subject) -> Callable[[], object]:
    kept = tc_copy(subject.model)
    return lambda: tc_copy_(kept, subject.model)


def _tc_lerp_into_model(subject: Subject) -> Callable[[], object]:
    average = tc_copy(subject.model)
    return lambda: tc_lerp_(average, subject.model, 0.001)


def _tc_fork_model(subject: Subject) -> Callable[[], object]:
    return lambda: fork(subject.model)


MODEL_METHODS: tuple[Method[Subject], ...] = (
    Method("deepcopy_model", "copy.deepcopy(model)", _deepcopy_model),
    Method("deepcopy_state_dict", "copy.deepcopy(model.state_dict())", _deepcopy_state_dict),
    Method("clone_dict", "{k: t.detach().clone() for k, t in model.state_dict().items()}", _clone_dict),
    Method("foreach_copy_", "torch._foreach_copy_(warm, list(model.state_dict().values()))", _foreach_copy),
    Method("lazy_clones", "{k: torch._lazy_clone(t) for k, t in model.state_dict().items()}", _lazy_clones),
    Method("tc_copy_model", "tc.copy(model)", _tc_copy_model),
    Method("tc_copy_state_dict", "tc.copy(model.state_dict())", _tc_copy_state_dict),
    Method("tc_copy_into_model", "tc.copy_(kept, model)", _tc_copy_into_model),
    Method("tc_lerp_into_model", "tc.lerp_(average, model, 0.001)", _tc_lerp_into_model),
    Method("tc_fork_model", "tc.fork(model)", _tc_fork_model),
    # Last, for making a new instance may take longer than all the others together.
    Method("load_state_dict", "new = FACTORY(); new.load_state_dict(model.state_dict())", _load_state_dict),
)
"""Ways to copy a model, or into one, each named once."""


def find_model_methods(names: Iterable[str] | None = None) -> tuple[Method[Subject], ...]:
    """The ways to copy a model called `names`, each once; all for None. No tensor is involved.

    Raises:
        InputError: there is no such way.
    """
    known = {method.id: method for method in MODEL_METHODS}
    if names is None:
        return MODEL_METHODS
    if isinstance(names, str):
        names = (names,)
    wanted = tuple(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
            raise InputError(f"there is no way to copy a model called {name!r}: {hint}")
    if not wanted:
        raise InputError(f"no method is left to measure: choose from {', '.join(known)}")
    return tuple(known[name] for name in wanted)


def bench_model(
    model: nn.Module | Factory | str,
    methods: Iterable[str] | None = None,
    *,
    factory: Factory | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    max_seconds: float = 60.0,
    against: BenchReport | None = None,
    on_step: Callable[[str], object] | None = None,
) -> BenchReport:
    """Measures what every way to copy a whole model costs here: time, memory, and how far it is from the limit.

    The limit is a warm `copy_` of the same number of bytes in one piece. What is timed is one call and the giving
    back of its result. A model that is passed in is read and never changed, its gradients and hooks included; lazy
    clones and forks share its memory until they are dropped, at once. No other thread may write it meanwhile. No
    graph is recorded or walked. The device is synchronised; PyTorch's random state is put back when a factory has
    drawn from it.

    Args:
        model: a module, a factory that makes one without arguments, or the factory's `package.module:name`.
        methods: ids of `MODEL_METHODS`; all of them if not given.
        factory: makes a new module like `model`, for the way that needs one, if `model` is a module.
        device: where to put what the factory makes; a module that is passed in stays where it is.
        dtype: as what to have it, likewise.
        max_seconds: time to spend. What does not fit is left out and named in the report.
        against: an older report that the result will be compared with; refused if it cannot be.
        on_step: called with words for each step.

    Raises:
        InputError: a factory that fails or makes no module, a module without dense tensors or on several devices,
            an unknown method, or too little free memory. Nothing was measured then.

    Example:
        >>> import torch, torchcopy as tc
        >>> report = tc.bench_model(lambda: torch.nn.Linear(64, 64), ["clone_dict", "lazy_clones"], max_seconds=1)
        >>> [(m.method, m.memory, m.tensors) for m in report.measurements]
        [('clone_dict', 'own', 2), ('lazy_clones', 'lazy', 2)]
    """
    started = time.perf_counter()
    chosen = find_model_methods(methods)
    seconds = check_max_seconds(max_seconds)
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if torch.cuda.is_available() else ()):
        if isinstance(model, nn.Module):
            if device is not None or dtype is not None:
                raise InputError(
                    "a module is measured where it is and as it is: move it yourself, or pass a factory"
                )
            build, name, subject_model = factory, type(model).__name__, model
        else:
            if factory is not None:
                raise InputError("`factory` goes with a module; here `model` is a factory already: pass only that")
            build, name = _find_factory(model, device, dtype)
            subject_model = build()
            name = type(subject_model).__name__ if "<lambda>" in name else name
        subject = Subject(subject_model, build)
        tensors, place = _check_model(subject_model, name)
        numel, dtypes = sum(t.numel() for t in tensors), ", ".join(sorted({dtype_name(t.dtype) for t in tensors}))
        if against is not None:
            keys = ((method.id, "model", numel) for method in chosen)
            check_comparable(against, kind="model", subject=name, device=str(place), dtype=dtypes, keys=keys)
        others = watch_neighbours()
        outcome = run_cases(
            [_case(subject, tensors)], chosen, device=place, max_seconds=seconds, on_step=on_step, started=started
        )
    return BenchReport(
        kind="model",
        subject=name,
        machine=describe_machine(),
        device=str(place),
        dtype=dtypes,
        sources=("model",),
        sizes=(numel,),
        methods=tuple(method.id for method in chosen),
        limits=outcome.limits,
        measurements=outcome.measurements,
        max_seconds=seconds,
        seconds=outcome.seconds,
        others_share=others(),
    )


# --- checks --------------------------------------------------------------------------------------------------


def _find_factory(
    model: Factory | str, device: str | torch.device | None, dtype: str | torch.dtype | None
) -> tuple[Factory, str]:
    """A factory whose modules are where and as they should be, after it has made one."""
    place = None if device is None else parse_device(device)
    kind = None if dtype is None else parse_dtype(dtype)
    if kind is not None and not (kind.is_floating_point or kind.is_complex):
        raise InputError(
            f"a model cannot be made {dtype_name(kind)}: use a floating dtype such as `--dtype bfloat16`"
        )
    if isinstance(model, str):
        name, make = model, import_callable(model, "model")
    elif callable(model):
        name, make = getattr(model, "__qualname__", type(model).__name__), model
    else:
        raise InputError(f"`model` must be a module or a factory that makes one; got {type(model).__name__}")
    if isinstance(make, nn.Module):
        raise InputError(f"model {name!r} is a module already: name a function that makes one")

    def build() -> nn.Module:
        try:
            made: object = make()
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
            wanted = "it must take no arguments and return an `nn.Module`"
            raise InputError(f"model {name!r}: the factory failed ({reason}); {wanted}") from error
        if not isinstance(made, nn.Module):
            raise InputError(f"model {name!r}: the factory returned {type(made).__name__}, not an `nn.Module`")
        if place is None and kind is None:
            return made
        try:
            return made.to(device=place, dtype=kind)
        except (RuntimeError, TypeError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            where = f"on {place}" if kind is None else f"on {place or 'its device'} as {dtype_name(kind)}"
            raise InputError(
                f"model {name!r} cannot be put {where} ({reason}): build it there, with values"
            ) from error

    return build, name


def _check_model(model: nn.Module, name: str) -> tuple[list[Tensor], torch.device]:
    named = state_tensors(model)
    for path, t in named.items():
        if is_lazy(t):
            raise InputError(
                f"model {name!r}: `{path}` is not initialised yet: run the model once on a batch first"
            )
        if t.is_meta or t.layout != torch.strided or not has_storage(t):
            what = f"{describe(t)}, {t.layout}"
            raise InputError(f"model {name!r}: `{path}` ({what}) has no dense values to copy: build it with some")
    tensors = [t for t in named.values() if t.numel()]
    if not tensors:
        raise InputError(f"model {name!r} has neither parameters nor buffers: there is nothing to copy")
    devices = {t.device for t in tensors}
    if len(devices) > 1:
        places = ", ".join(sorted(map(str, devices)))
        raise InputError(f"model {name!r} lies on {places}: put it on one device to measure it")
    tensors = _distinct(tensors)
    place = tensors[0].device
    count = sum(t.numel() * t.element_size() for t in tensors)
    check_memory(
        3 * count,
        place,
        what=f"copying model {name!r} ({format_bytes(count)}) in every way",
        instead="measure a smaller configuration of it, or free some memory",
    )
    return tensors, place


def state_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of `model.state_dict()` by name; they share memory with the model."""
    return {name: t for name, t in model.state_dict(keep_vars=True).items() if isinstance(t, Tensor)}


def _values(model: nn.Module) -> list[Tensor]:
    return [t for t in model.state_dict().values() if isinstance(t, Tensor)]


def _distinct(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Each memory once: tied weights stand in a state_dict under several names."""
    return list({(first_byte(t), t.shape, t.stride(), t.dtype): t for t in tensors}.values())


# --- the case ------------------------------------------------------------------------------------------------


def _case(subject: Subject, tensors: Sequence[Tensor]) -> Case[Subject]:
    return Case(
        source="model",
        numel=sum(t.numel() for t in tensors),
        bytes=sum(t.numel() * t.element_size() for t in tensors),
        tensors=len(tensors),
        build=lambda: subject,
        limit=partial(_limit, tensors),
        look=_look,
        settle=lambda subject: let_go(_values(subject.model)),
    )


def _limit(tensors: Sequence[Tensor], _: Subject) -> Callable[[], object]:
    return list_limit(tensors)


def _look(subject: Subject, result: Any) -> tuple[bool | None, Memory]:
    """Compares every tensor of the copy with its source; the weakest answer stands for all."""
    sources = [t for t in _values(subject.model) if t.numel()]
    found = [t for t in _result_tensors(result) if t.numel()]
    if len(found) != len(sources):
        raise TypeError(f"it returned {len(found)} tensors for {len(sources)}")
    answers = [look_at_tensor(source, copied) for source, copied in zip(sources, found, strict=True)]
    memories = {memory for _, memory in answers}
    weakest: Memory = "share" if "share" in memories else "lazy" if "lazy" in memories else "own"
    return all(differs for differs, _ in answers), weakest


def _result_tensors(result: Any) -> list[Tensor]:
    if isinstance(result, nn.Module):
        return _values(result)
    values = result.values() if isinstance(result, Mapping) else result
    return [t for t in values if isinstance(t, Tensor)]
