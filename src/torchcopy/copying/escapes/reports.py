"""ESCAPES: the ways on which a copy still reaches the tensors of its source.

`copy.deepcopy`, and a copy that keeps its rules, leaves functions, classes and weak references as they are. What
they refer to is then the source's: a closure over the model, a hook's default argument, a global registry.
"""

from __future__ import annotations

import dataclasses
import types
import warnings
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from ... import _torch_private
from ..._errors import EscapeError, EscapeWarning
from ..._tensors import describe, dtype_name
from ..objects.function_references import in_library, module_in_library
from ..objects.object_children import PLAIN, module_name, type_name
from ..objects.object_paths import find_paths
from ..request import OnEscape
from .escape_search import EscapeSearch, Finding, memory_of

_NAMED = 5
_LONGEST_PATH = 160


@dataclass(frozen=True, slots=True)
class Escape:
    """A way on which a copy still reaches a tensor of its source.

    Attributes:
        copy_path: the way from the copy: `copy.act.__closure__['model'].fc.weight`.
        source_path: where the tensor is in the source: `source.fc.weight`.
        through: what was kept by reference: `closure`, `default argument`, `global variable`, `weak reference`,
            `bound method`, `function attribute`, `property`, `cached function`, `class attribute` or
            ``custom `__deepcopy__` ``.
        tensor: the tensor: `float32[2, 3] cpu`.
        more_tensors: how many more of the source's tensors are reached through the same object; None where there
            are too many to count.
    """

    copy_path: str
    source_path: str
    through: str
    tensor: str
    more_tensors: int | None = 0

    def __str__(self) -> str:
        more = _more(self.more_tensors)
        return (
            f"{_shortened(self.copy_path)} is {_shortened(self.source_path)}\n"
            f"    ({self.tensor}, reached through a {self.through}{more})"
        )

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)


def _more(count: int | None) -> str:
    if count is None:
        return ", as are others"
    return "" if count == 0 else f", as {'is 1' if count == 1 else f'are {count}'} more"


def _shortened(path: str) -> str:
    half = _LONGEST_PATH // 2
    return path if len(path) <= _LONGEST_PATH else f"{path[:half]} … {path[-half:]}"


def find_escapes(
    copied: object,
    source: object,
    kept: Sequence[object],
    source_tensors: Iterable[Tensor],
    shared: Collection[int] = (),
    *,
    shared_types: tuple[type, ...] = (),
) -> tuple[Escape, ...]:
    """The ways on which `copied` still reaches tensors of `source`, at most one for each object of `kept`.

    Nothing is written, copied or waited for; values of tensors are not read, and no code of the objects' classes
    runs. It takes microseconds where the kept functions refer to nothing, and paths are worked out only where
    there is an escape. The search is bounded: what lies very far behind a kept object may be missed.

    Args:
        copied: the copy.
        source: what it was made from.
        kept: the objects that are in the copy as they were in the source: functions, built-in methods, weak
            references, classes, and what a foreign `__deepcopy__` or `__reduce_ex__` returned. The classes of
            copied instances may be among them: their class attributes are reached from the copy too.
        source_tensors: all tensors that were copied. Another tensor on the storage of one of them counts as it.
        shared: ids of the objects that the caller wants both sides to share. They are not entered.

        shared_types: classes whose instances the caller wants both sides to share; not entered either.

    Returns:
        The escapes, in the order of `kept`.
    """
    once = {id(obj): obj for obj in kept}
    suspects = [obj for each, obj in once.items() if each not in shared and _refers_to_something(obj)]
    if not suspects:
        return ()
    with _torch_private.outside_modes():
        search = EscapeSearch(suspects, source_tensors, shared, shared_types)
        findings = [finding for obj in suspects if (finding := search.from_object(obj)) is not None]
        return _with_paths(findings, copied, source) if findings else ()


def _refers_to_something(obj: Any) -> bool:
    """Whether there is anything to search behind `obj`; told at once for what models hold most of."""
    kind = type(obj)
    if kind is types.FunctionType:
        return bool(
            obj.__closure__ or obj.__defaults__ or obj.__kwdefaults__ or obj.__dict__ or not in_library(obj)
        )
    if kind is types.BuiltinFunctionType:
        return not (obj.__self__ is None or issubclass(type(obj.__self__), (types.ModuleType, type)))
    if issubclass(kind, type):
        return not module_in_library(module_name(obj))
    return id(kind) not in PLAIN


# --- paths ----------------------------------------------------------------------------------------------------


def _with_paths(findings: Sequence[Finding], copied: object, source: object) -> tuple[Escape, ...]:
    starts = _paths_to_kept([finding.start for finding in findings], copied)
    ends = _paths_to_tensors([finding.tensor for finding in findings], source)
    return tuple(
        Escape(start + f.steps, end, f.through, _described(f.tensor), f.more_tensors)
        for f, start, end in zip(findings, starts, ends, strict=True)
    )


def _described(t: Tensor) -> str:
    try:
        return describe(t)
    except RuntimeError:  # a nested tensor has no shape, and neither has a parameter before its first use
        return f"{dtype_name(t.dtype)}[?] {t.device}"


def _paths_to_kept(kept: Sequence[object], copied: object) -> list[str]:
    """How the copy reaches each of the kept objects; for a class, perhaps as the class of something in the copy."""
    wanted = set(map(id, kept))
    paths = find_paths(copied, wanted, name="copy")
    if missing := wanted - paths.keys():
        classes = {id(obj) for obj in kept if issubclass(type(obj), type)}
        paths |= find_paths(copied, missing & classes, key=lambda obj: id(type(obj)), name="copy")
        paths |= find_paths(copied, missing - paths.keys(), name="copy", through_functions=True)
    return [paths.get(id(obj)) or f"<{_name_of(obj)} in the copy>" for obj in kept]


def _name_of(obj: object) -> str:
    if issubclass(type(obj), types.FunctionType):
        return f"function {cast(types.FunctionType, obj).__qualname__}"
    return type_name(type(obj))


def _paths_to_tensors(tensors: Sequence[Tensor], source: object) -> list[str]:
    """Where each of the tensors is in the source; if not itself, then another on its storage."""
    paths = find_paths(source, set(map(id, tensors)), name="source")
    others = {memory_of(t) for t in tensors if id(t) not in paths}
    paths |= find_paths(source, others, key=_memory_if_tensor, name="source")
    return [paths.get(id(t)) or paths.get(memory_of(t)) or "<a tensor in the source>" for t in tensors]


def _memory_if_tensor(obj: object) -> Hashable | None:
    return memory_of(cast(Tensor, obj)) if issubclass(type(obj), Tensor) else None


# --- the report -----------------------------------------------------------------------------------------------


def report_escapes(escapes: Sequence[Escape], on_escape: OnEscape, *, stacklevel: int = 1) -> None:
    """Says which tensors of its source a copy still reaches, and what can be done. Changes nothing.

    Args:
        escapes: what `find_escapes` found; nothing is said where it is empty.
        on_escape: `"warn"` warns once, `"error"` raises, `"ignore"` does nothing.
        stacklevel: whose line the warning names: 1 is the caller of `report_escapes`, 2 its caller, and so on.

    Raises:
        EscapeError: there are escapes and `on_escape` is `"error"`.
        EscapeWarning: the same with `"warn"`, where a filter makes errors of warnings.
    """
    if not escapes or on_escape == "ignore":
        return
    if on_escape == "error":
        raise EscapeError(escape_message(escapes))
    warnings.warn(EscapeWarning(escape_message(escapes)), stacklevel=stacklevel + 1)


def escape_message(escapes: Sequence[Escape]) -> str:
    """What a warning or an error says about `escapes`."""
    lines = [
        "the copy still reaches tensors of its source, so that what is written to them through one is seen by both:"
    ]
    lines += [f"  {escape}" for escape in escapes[:_NAMED]]
    if (unnamed := len(escapes) - _NAMED) > 0:
        lines.append(f"  and {unnamed} more such place{'s' if unnamed > 1 else ''}")
    lines.append(
        "Set these to functions that refer to the copy (register the hook there, make the closure anew), name what "
        'both are meant to share in `share=`, or pass `on_escape="ignore"`.'
    )
    return "\n".join(lines)
