"""What cannot be copied: found in the walk, told with the path to it and the way out."""

from __future__ import annotations

import copy
import copyreg
import pickle
import re
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import ClassVar

import torch
from torch import Tensor

from .._errors import CopyError, InputError
from .._tensors import lacks_memory
from .objects.object_children import module_name
from .objects.object_paths import find_path, held_objects


class Uncopyable(CopyError):  # noqa: N818  # never leaves the room
    """Raised inside a walk, where the path to `culprit` is not known yet."""

    def __init__(self, culprit: object, reason: str = "") -> None:
        super().__init__(f"{type_name(culprit)} cannot be copied")
        self.culprit = culprit
        self.reason = reason

    def explained(self, root: object) -> Exception:
        """The error for the caller: which object, where in `root`, and what to do."""
        where = place_of(self.culprit, root)
        reason = f" ({self.reason})" if self.reason else ""
        cls = type(self.culprit)
        unnamed = "<locals>" in cls.__qualname__ or cls.__module__ == "builtins"
        named = (_path_to(self.culprit, root) or "x") if unnamed else type_name(self.culprit)
        return CopyError(
            f"{where} cannot be copied{reason}. Nothing was copied. To have the copy refer to the same one, pass "
            f"the object or its type in `share`, such as `share=({named},)`"
        )


class _Refused(Uncopyable):
    """Raised for what could be copied, but not as the caller asks for."""

    why: ClassVar[str]

    def explained(self, root: object) -> Exception:
        """The error for the caller: which object, why, and what to do instead."""
        return InputError(self.why.format(where=place_of(self.culprit, root), reason=self.reason))


class KeepsNoModule(_Refused):
    """Raised inside a walk that looks for what stays in the graph."""

    why = (
        "graph='keep' does not go with {where}: its parameters have to be leaves. Copy the parameters alone, "
        "`params = tc.copy(dict(model.named_parameters()), graph='keep')`, and run the model with them, "
        "`torch.func.functional_call(model, params, inputs)`"
    )


class HasNoValues(_Refused):
    """Raised for a tensor on the meta device that is wanted elsewhere."""

    why = (
        "{where} is on the meta device and has no values to bring to another: give the module memory first, "
        "`module.to_empty(device=...)`, and initialise it"
    )


class HasNoSuchKind(_Refused):
    """Raised for a tensor of a kind that PyTorch does not have as, or where, it is wanted."""

    why = "{where} is {reason}, or keep it by reference, in `share`"


class HasNoMemory(_Refused):
    """Raised for a tensor whose storage ends before it does: somebody has freed it."""

    why = (
        "{where} has no memory: its storage was freed (`untyped_storage().resize_`). Give it its memory back "
        "first, or keep it by reference, in `share`"
    )


def check_have_values(sources: Iterable[Tensor], device: torch.device | None) -> None:
    """Whether all sources can be brought to `device`.

    Raises:
        HasNoValues: one is on the meta device, and the copy is to be elsewhere.
    """
    if device is not None and device.type != "meta":
        for t in sources:
            if t.is_meta:
                raise HasNoValues(t)


def check_have_memory(sources: Iterable[Tensor]) -> None:
    """Whether each storage holds all that its tensor reaches.

    Raises:
        HasNoMemory: one does not.
    """
    for t in sources:
        if lacks_memory(t):
            raise HasNoMemory(t)


def _path_to(culprit: object, root: object) -> str | None:
    return find_path(root, culprit, name="obj", through_functions=False)


def place_of(culprit: object, root: object) -> str:
    """Where `culprit` is in `root`, and of what class it is, for a message."""
    path = _path_to(culprit, root)
    return f"`{path}` ({type_name(culprit)})" if path else f"a `{type_name(culprit)}` inside `obj`"


def type_name(x: object) -> str:
    """The class of `x` as a user would import it: `_thread.lock`, `socket.socket`."""
    cls = type(x)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


# Types that `copy.deepcopy` has a rule for.
_deepcopy_table: dict[type, object] = getattr(copy, "_deepcopy_dispatch", {})


def _module_of(cls: type) -> str:
    return module_name(cls).partition(".")[0]


def find_uncopyable(root: object, is_shared: Callable[[object], bool]) -> object | None:
    """Something in `root` that certainly cannot be copied, or None. Calls no code of the user's classes."""
    held = held_objects(root, passing=fake_tensor_modes(), closed=_decides_itself)
    return next((each for each in held if _is_uncopyable(each) and not is_shared(each)), None)


def fake_tensor_modes() -> tuple[type, ...]:
    """The class of the modes that fake tensors, and their copies, refer to; none before PyTorch has loaded it."""
    mode = getattr(sys.modules.get("torch._subclasses.fake_tensor"), "FakeTensorMode", None)
    return () if mode is None else (mode,)


# Where they are loaded, module and class of what stands for something outside this program's memory.
_CONNECTIONS = (
    ("torch", "Stream"),
    ("torch", "Event"),
    ("torch.distributed", "ProcessGroup"),
    ("multiprocessing.connection", "_ConnectionBase"),
)


def is_connection(cls: type) -> bool:
    """Whether instances stand for something outside this program's memory: a copy would be a second hand on it."""
    known = (getattr(sys.modules.get(module), name, None) for module, name in _CONNECTIONS)
    return any(connection is not None and issubclass(cls, connection) for connection in known)


_SAYS_NO = re.compile(r"\b[Cc]an ?not (be )?pickle|should only be shared between processes")


def says_no(error: Exception) -> bool:
    """Whether an object raised this because it is none to be pickled, nor to be copied."""
    return _SAYS_NO.search(str(error)) is not None


def explain_failure(error: Exception, culprit: object, root: object) -> None:
    """Adds to what code of others raised, during the copying of `culprit`, where in `root` that is."""
    error.add_note(f"This was raised by the copying of {place_of(culprit, root)}. Nothing was copied.")


_DECIDING = ("__deepcopy__", "__reduce_ex__", "__reduce__", "__getstate__")
# The homes of methods that copy all that an instance holds.
_COPY_ALL = frozenset({"builtins", "collections", "functools", "torch", "types"})


def _decides_itself(cls: type) -> bool:
    """Whether a method of the class's own says what is copied: it may leave out what cannot be, such as a lock."""
    if cls in copyreg.dispatch_table:
        return True
    for name in _DECIDING:
        method = getattr(cls, name, None)
        if method is not None and method is not getattr(object, name, None):
            owner = getattr(method, "__objclass__", method)  # of a method in C, its class
            if str(getattr(owner, "__module__", "")).partition(".")[0] not in _COPY_ALL:
                return True
    return False


def _is_uncopyable(x: object) -> bool:
    cls = type(x)
    if is_connection(cls):
        return True
    if cls in _deepcopy_table or cls in copyreg.dispatch_table or issubclass(cls, (type, OrderedDict, deque)):
        return False
    # What Python itself comes with may say no by methods of its own: a socket by its `__getstate__`.
    standard = _module_of(cls) in sys.stdlib_module_names and "<locals>" not in cls.__qualname__
    own = any(
        getattr(cls, name, None) is not getattr(object, name, None)
        for name in ("__reduce_ex__", "__reduce__", "__getstate__", "__getattribute__")
    )
    if (own and not standard) or hasattr(cls, "__deepcopy__"):
        return False
    try:
        cls.__reduce_ex__(x, 4)
    except (TypeError, RuntimeError, pickle.PickleError) as error:
        return says_no(error)
    except Exception:  # noqa: BLE001  # it will be met again, by the walk
        return False
    return False
