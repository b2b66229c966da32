"""`copy` and `fork`: one call for everything in PyTorch."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import Any, TypeVar, overload

import torch
from torch import Tensor

from .. import _torch_private
from .._errors import InputError
from .escapes.reports import find_escapes, report_escapes
from .refusals import Uncopyable, explain_failure
from .request import DEFAULT, Graph, Memory, OnEscape, Request, parse_request
from .tensors.kept_graph import copy_in_graph
from .walking.nested_calls import Memo, waiting_walk
from .walking.recursion import more_recursion
from .walking.walk import Walk

T = TypeVar("T")


@_torch_private.outside_compiled_graphs
def copy(
    obj: T,
    *,
    graph: Graph = "detach",
    memory: Memory = "own",
    device: str | torch.device | int | None = None,
    dtype: str | torch.dtype | None = None,
    memory_format: torch.memory_format = torch.preserve_format,
    requires_grad: bool | None = None,
    grad: bool = False,
    pin_memory: bool = False,
    non_blocking: bool = False,
    share: Iterable[Any] = (),
    on_escape: OnEscape = "warn",
    memo: dict[int, Any] | None = None,
) -> T:
    """A copy of anything: a tensor, a module, an optimizer with its model, any nesting of Python objects.

    Of Python objects it makes what `copy.deepcopy` makes. Of tensors it makes what `copy.deepcopy` refuses or gets
    wrong, too: non-leaf tensors, tied weights, `.grad`, attributes, views of one storage; and it copies all of them
    in a few calls, after it has seen that the whole object can be copied.

    Is storage shared? Not with `memory="own"`. Tensors that share a storage in `obj` share one in the copy, with
    the same strides; of a storage that is only partly viewed, only that part is copied.
    Is the graph kept? Not with `graph="detach"`: the copy's tensors are leaves. With `graph="keep"`, gradients flow
    back to `obj`.
    Does it synchronise? Between devices, yes, once for all tensors, unless `non_blocking`; what arrives in main
    memory is always complete.
    Is an input changed? No, nor its version counters. With `memory="lazy"` its storages become copy-on-write.

    Args:
        obj: what to copy.
        graph: `"detach"`, or `"keep"` for copies through which gradients flow back.
        memory: `"own"`: the copy has its own bytes. `"lazy"`: both sides share them until one is written (see
            `fork`). `"share"`: the copy's tensors are detached aliases of the source's.
        device: where every tensor of the copy goes; by default each stays where it is.
        dtype: what floating tensors become; others keep theirs.
        memory_format: as in `torch.Tensor.clone`, for tensors that share their storage with no other and have as
            many dimensions as the format.
        requires_grad: of every floating or complex tensor in the copy; by default as in the source for leaves, and
            False for others.
        grad: whether `.grad` is copied too.
        pin_memory: whether the copy's tensors in main memory are page-locked.
        non_blocking: whether transfers to a device may still be under way when this returns; work on that device
            waits for them. A source in pinned memory must not be written before they are done.
        share: types and objects that are kept by reference. A module stands for its parameters and buffers too.
        on_escape: what to do if the copy still reaches tensors of `obj`, through a closure or a weak reference:
            `"warn"`, `"error"` or `"ignore"`.
        memo: as in `copy.deepcopy`, for use in `__deepcopy__`.

    Raises:
        CopyError: `obj` holds something that cannot be copied, or an optimizer without its parameters. Nothing was
            copied.
        InputError: an option has no such value, or two contradict each other.
        EscapeError: the copy reaches tensors of `obj`, and `on_escape="error"`.

    Example:
        >>> import torch, torchcopy as tc
        >>> model = torch.nn.Linear(2, 2)
        >>> optimizer = torch.optim.AdamW(model.parameters())
        >>> copied, its_optimizer = tc.copy((model, optimizer))
        >>> its_optimizer.param_groups[0]["params"][0] is copied.weight
        True
        >>> with torch.no_grad():
        ...     _ = model.weight.fill_(0.0)
        >>> bool((copied.weight == 0.0).all())
        False
    """
    if (
        graph == "detach"
        and memory == "own"
        and on_escape == "warn"
        and isinstance(share, tuple)
        and not share
        and device is None
        and dtype is None
        and requires_grad is None
        and memory_format is torch.preserve_format
        and grad is pin_memory is non_blocking is False
    ):
        request = DEFAULT
    else:
        request = parse_request(
            graph=graph,
            memory=memory,
            device=device,
            dtype=dtype,
            memory_format=memory_format,
            requires_grad=requires_grad,
            grad=grad,
            pin_memory=pin_memory,
            non_blocking=non_blocking,
            share=share,
            on_escape=on_escape,
        )
    copied: T = _make(obj, request, _checked_memo(memo))
    return copied


@overload
def fork(obj: T, n: None = None, **same: Any) -> T: ...
@overload
def fork(obj: T, n: int, **same: Any) -> list[T]: ...
@_torch_private.outside_compiled_graphs
def fork(obj: T, n: int | None = None, **same: Any) -> T | list[T]:
    """A copy that costs no memory until one side is written: copy-on-write. One fork, or a list of `n`.

    The first write to a tensor, of `obj` or of a fork, copies that tensor's storage; all others stay shared. Reads
    copy nothing. `obj` and its forks may be written and dropped on different threads at the same time. Where
    PyTorch cannot share (memory that it does not own, as from `torch.from_numpy`), that tensor is copied at once;
    `tc.relate(obj, forked)` says which.

    Is storage shared? The bytes are, until somebody writes; no write is ever seen on the other side.
    Is the graph kept? Not with `graph="detach"`, the default; `graph="keep"` works too.
    Does it synchronise? No.
    Is an input changed? Its values and version counters are not; its storages become copy-on-write.

    The price: bytes that both sides have written away are given back a fraction of a second later, and a tensor
    whose forks are gone is still copied once at its next write. The limit: raw pointers that were taken before (a
    `numpy()` array, a DLPack capsule, a captured CUDA graph) write past copy-on-write, into both.

    Args:
        obj: what to fork; anything that `copy` copies.
        n: how many forks to make; None for one that is not in a list.
        same: options of `copy`, except `memory`, and those that move or convert.

    Raises:
        CopyError, InputError, EscapeError: as `copy` does.

    Example:
        >>> import torch, torchcopy as tc
        >>> weights = {"w": torch.zeros(1000)}
        >>> forked = tc.fork(weights)
        >>> _ = weights["w"].add_(1)
        >>> float(forked["w"].sum()), float(weights["w"].sum())
        (0.0, 1000.0)
    """
    if "memory" in same:
        raise InputError("`fork` is `copy` with memory='lazy': call `tc.copy` to choose another memory")
    count = None if n is None else _count_of_forks(n)
    if same:
        unknown = same.keys() - _FORK_OPTIONS.keys()
        if unknown:
            raise InputError(f"`fork` has no option {sorted(unknown)[0]!r}: it has {', '.join(_FORK_OPTIONS)}")
        options = {**_FORK_OPTIONS, **same}
        memo = _checked_memo(options.pop("memo"))
        request = parse_request(memory="lazy", **options)
    else:
        memo, request = None, _FORK
    if count is None:
        forked: T = _make(obj, request, memo)
        return forked
    forks: list[T] = []
    for _ in range(count):  # each with what the memo had before: it would give the next one the last fork
        forks.append(_make(obj, request, None if memo is None else memo.copy()))
        request = request.without_escapes()  # told once
    return forks


def _count_of_forks(n: Any) -> int:
    """The number of forks.

    Raises:
        InputError: it is none.
    """
    if not isinstance(n, bool):
        try:
            count = operator.index(n)
        except TypeError:
            count = -1
        if count >= 0:
            return count
    raise InputError(f"`n` must be a number of forks, or None for one without a list; got {n!r}")


def _checked_memo(memo: Any) -> dict[int, Any] | None:
    """The memo as it is.

    Raises:
        InputError: it is no dict.
    """
    if memo is None or isinstance(memo, dict):
        return memo
    raise InputError(f"`memo` must be a dict, as `copy.deepcopy` passes it on; got {type(memo).__name__}")


_FORK_OPTIONS: dict[str, Any] = {
    "graph": "detach",
    "device": None,
    "dtype": None,
    "memory_format": torch.preserve_format,
    "requires_grad": None,
    "grad": False,
    "pin_memory": False,
    "non_blocking": False,
    "share": (),
    "on_escape": "warn",
    "memo": None,
}
_FORK = Request(memory="lazy")


def _make(obj: Any, request: Request, memo: dict[int, Any] | None) -> Any:
    """The copy; `copy` and `fork` call it directly, so that a warning names their caller's line."""
    outer = waiting_walk(memo)
    if outer is not None and outer.request == request:  # a `__deepcopy__` that our own walk has called
        return outer.copy_within(obj)
    in_graph: list[tuple[Tensor, Tensor]] = []
    if request.graph == "keep":
        memo, in_graph = _copied_in_graph(obj, request, memo)
    walk = Walk(request, memo)
    try:
        walk.after += [
            functools.partial(walk.items, t.__dict__, c.__dict__)
            for t, c in in_graph
            if t.__dict__ and type(t).__torch_dispatch__ is Tensor.__torch_dispatch__  # others' are their parts
        ]
        try:
            copied = walk.copy(obj)
        except RecursionError:  # for some objects we need more of it than `copy.deepcopy`
            if memo is not None:  # which is half filled now
                raise
            walk.close()
            walk = Walk(request, None)
            with more_recursion():
                copied = walk.copy(obj)
        tensors = [t for t, _ in in_graph] + walk.tensors.done
        if request.on_escape != "ignore" and request.memory != "share":  # shared is what it was to be
            classes = [cls for cls in walk.recipes if not cls.__module__.startswith("torch.")]
            escapes = find_escapes(
                copied,
                obj,
                [*walk.kept.values(), *classes],
                tensors,
                request.shared_ids,
                shared_types=request.shared_types,
            )
            report_escapes(escapes, request.on_escape, stacklevel=3)
        walk.tensors.write()
    except Uncopyable as error:
        raise error.explained(obj) from error
    except Exception as error:
        if walk.failed_at is not None:
            explain_failure(error, walk.failed_at, obj)
        raise
    finally:
        walk.close()
    return copied


def _copied_in_graph(
    obj: Any, request: Request, memo: dict[int, Any] | None
) -> tuple[dict[int, Any], list[tuple[Tensor, Tensor]]]:
    """A memo that has the copies of all tensors in `obj`, and each of these tensors with its copy.

    They have to be known before the objects around them are copied: a tensor in a graph cannot be filled later.
    """
    looking = Walk(request.only_looking(), Memo(memo or {}))
    try:
        looking.copy(obj)
        sources = list(looking.tensors.done)
        originals = [looking.tensors.originals.get(id(t), t) for t in sources]
        copies = copy_in_graph(sources, request)
    except Uncopyable as error:
        raise error.explained(obj) from error
    finally:
        looking.close()
    memo = Memo() if memo is None else memo
    pairs = []
    for original, t, copied in zip(originals, sources, copies, strict=True):
        if original is not t:
            with _torch_private.without_torch_function():
                copied = copied.as_subclass(type(original))
        memo[id(original)] = copied
        pairs.append((original, copied))
    return memo, pairs
