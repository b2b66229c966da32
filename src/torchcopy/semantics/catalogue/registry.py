"""Finding methods by name, and registering one's own."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from torch import Tensor

from ..._errors import InputError
from .built_in import BUILT_IN
from .import_spec import import_callable
from .method import CopyMethod

_methods: dict[str, CopyMethod] = {method.id: method for method in BUILT_IN}


def register_method(
    id: str,
    run: Callable[[Tensor], Tensor],
    *,
    code: str | None = None,
    purpose: str = "",
    prefer: str | None = None,
    why: str = "",
) -> CopyMethod:
    """Adds a way to copy of your own; the table, the bench and the advice then measure it like the others.

    Nothing is copied, run or synchronised here: no storage is shared and no graph is touched.

    Args:
        id: a new name for it.
        run: takes the source tensor, returns the copy.
        code: the expression to show; `id(t)` if not given.
        purpose: what it is for.
        prefer: the id of a method to use instead, if any.
        why: why.

    Returns:
        The entry, as it stands in the catalogue.

    Raises:
        InputError: the id is empty or taken, `run` cannot be called, or `prefer` names no method.

    Example:
        >>> import torchcopy as tc
        >>> tc.register_method("times_one", lambda t: t * 1, code="t * 1").code
        't * 1'
        >>> tc.probe("times_one").main.graph
        True
        >>> tc.unregister_method("times_one")
    """
    if not isinstance(id, str) or not id or not id.isprintable() or set(id) & set(" ,:|"):
        raise InputError(f"a copy method needs a name without spaces, commas, colons and bars; got {id!r}")
    for name, text in (("code", code), ("purpose", purpose), ("why", why)):
        if not (isinstance(text, str) or (name == "code" and text is None)):
            raise InputError(f"copy method {id!r}: `{name}` is a text; got {text!r}")
    if id in _methods:
        raise InputError(f"a copy method named {id!r} exists already: choose another name")
    if not callable(run):
        raise InputError(f"copy method {id!r}: `run` must take a tensor and return one; got {run!r}")
    if prefer is not None:
        find_method(prefer)
    method = CopyMethod(id, code if code is not None else f"{id}(t)", run, purpose, prefer, why)
    _methods[id] = method
    return method


def unregister_method(id: str) -> None:
    """Removes a method that `register_method` added; those of the catalogue itself stay.

    No tensor is involved: nothing is shared, synchronised or changed but the catalogue.

    Raises:
        InputError: there is no such method, or it is one of the catalogue's own.
    """
    find_method(id)
    if any(id == method.id for method in BUILT_IN):
        raise InputError(f"{id!r} is one of the catalogue's own methods and cannot be removed")
    del _methods[id]


def find_method(name: str) -> CopyMethod:
    """The method called `name`; `package.module:function` takes a function of yours as a method.

    Raises:
        InputError: there is no such method, or the function cannot be imported.
    """
    if not isinstance(name, str):
        raise InputError(
            f"a copy method is named by its id; got {name!r}: register a function with `register_method`"
        )
    if name in _methods:
        return _methods[name]
    if ":" in name:
        return CopyMethod(
            name, f"{name.rpartition(':')[2]}(t)", import_callable(name, "method"), "Your own function."
        )
    close = difflib.get_close_matches(name, _methods, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(_methods)}"
    raise InputError(f"there is no copy method {name!r}: {hint}")


def find_methods(names: Iterable[str | CopyMethod] | None = None) -> tuple[CopyMethod, ...]:
    """The methods called `names`, in that order, each once; all of the catalogue for None.

    Raises:
        InputError: there is no such method, or `names` is no list of names.
    """
    if names is None:
        return tuple(_methods.values())
    if isinstance(names, (str, CopyMethod)):
        names = (names,)
    if not isinstance(names, Iterable):
        raise InputError(f"methods are a list of names, such as ['clone', 'detach']; got {names!r}")
    return tuple(name if isinstance(name, CopyMethod) else find_method(name) for name in dict.fromkeys(names))
