"""Values as JSON, and back as exactly what they were: numbers, strings, containers, NumPy's scalars and arrays.

JSON's own null, true, numbers, strings and arrays stand for None, bool, int and finite float, str and list. All
else is an object with one key that says what it is: `{"tuple": [1, 2]}`, `{"float": "nan"}`.
"""

from __future__ import annotations

import base64
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import numpy as np
import torch
from torch import Tensor

from .faults import Fault, shown

_LONG_INT_BITS: Final = 1024  # Python reads no decimal number of more than 4,300 digits
DEEPEST: Final = 100  # containers inside each other: far from where Python's own JSON gives up
_SCALAR_KINDS: Final = "biufcmMSU"
_NOT_FINITE: Final = ("nan", "inf", "-inf")
MAPPINGS: Final[Mapping[str, type]] = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "Counter": Counter,
    "defaultdict": defaultdict,
}
_SEQUENCES: Final[Mapping[str, type]] = {"tuple": tuple, "set": set, "frozenset": frozenset, "deque": deque}
_FACTORIES: Final[Mapping[str, Callable[[], Any]]] = {
    t.__name__: t for t in (list, dict, set, int, float, str, bool, tuple)
}
_NAMED_OF_TORCH: Final[Mapping[str, type]] = {
    "dtype": torch.dtype,
    "layout": torch.layout,
    "memory_format": torch.memory_format,
}


class Refusals:
    """What cannot be saved, a line each."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def refuse(self, path: str, why: str) -> None:
        """Notes one; what is returned for it is not used."""
        line = f"{path}: {why}"
        if line not in self.lines[-1:]:  # an array of too deep lists has many
            self.lines.append(line)


class ValueEncoder:
    """Turns values into JSON. Tensors and arrays in them go to `tensor` and `array`, which give them numbers."""

    def __init__(
        self, refusals: Refusals, tensor: Callable[[Tensor, str], int], array: Callable[[Tensor, str], int]
    ) -> None:
        self.refusals, self._tensor, self._array = refusals, tensor, array

    def encode(self, x: Any, path: str, depth: int = 0) -> Any:
        """`x` as JSON; what cannot be is noted among the refusals."""
        cls = type(x)
        if x is None or cls is bool:
            return x
        if cls is str:
            return x if is_text(x) else {"str": x.encode(errors="surrogatepass").hex()}
        if cls is int:
            return x if x.bit_length() <= _LONG_INT_BITS else {"int": hex(x)}
        if cls is float:
            return x if math.isfinite(x) else {"float": str(x)}
        if depth > DEEPEST:
            self.refusals.refuse(f"{path[:80]}…", f"more than {DEEPEST} containers inside each other")
            return None
        if cls is list:
            return [self.encode(a, f"{path}[{k}]", depth + 1) for k, a in enumerate(x)]
        name = cls.__name__
        if _SEQUENCES.get(name) is cls:
            listed = {name: [self.encode(a, f"{path}[{k}]", depth + 1) for k, a in enumerate(x)]}
            return listed if cls is not deque else {**listed, "maxlen": x.maxlen}
        if MAPPINGS.get(name) is cls:
            return self._mapping(x, name, path, depth)
        if isinstance(x, Tensor):
            return {"tensor": self._tensor(x, path)}
        if cls is np.ndarray:
            return self._ndarray(x, path)
        if isinstance(x, np.generic):
            return self._scalar(x, path)
        return self._rare(x, path)

    def _mapping(self, x: Any, name: str, path: str, depth: int) -> Any:
        encoded = self.mapping(name, x, [self.encode(v, f"{path}[{k!r}]", depth + 1) for k, v in x.items()], path)
        if name == "defaultdict":
            factory = x.default_factory
            known = None if factory is None else getattr(factory, "__name__", None)
            if factory is not None and _FACTORIES.get(known or "") is not factory:
                self.refusals.refuse(path, f"a defaultdict of {factory!r}, which JSON cannot hold")
            encoded["default"] = known
        elif name == "OrderedDict" and x.__dict__:
            encoded["attributes"] = self.encode(x.__dict__, f"{path}.__dict__", depth + 1)
        return encoded

    def mapping(self, name: str, keys: Any, values: list[Any], path: str) -> dict[str, Any]:
        """A mapping whose values are encoded already."""
        if all(type(k) is str and is_text(k) for k in keys):
            return {name: dict(zip(keys, values, strict=True))}
        flat: list[Any] = []
        for k, value in zip(keys, values, strict=True):
            flat += (self.encode(k, f"{path}, the key {k!r}"), value)
        return {name: flat}

    def _ndarray(self, x: np.ndarray[Any, Any], path: str) -> Any:
        if x.dtype.kind not in _SCALAR_KINDS:
            self.refusals.refuse(path, f"a NumPy array of {x.dtype}, which safetensors cannot hold")
            return None
        fortran = x.flags.f_contiguous and not x.flags.c_contiguous
        flat = np.ascontiguousarray((x.T if fortran else x).reshape(-1))
        data = flat.view(np.uint8) if flat.nbytes else np.empty(0, np.uint8)
        number = self._array(torch.from_numpy(data if data.flags.writeable else data.copy()), path)
        order = "F" if fortran else "C"
        return {"ndarray": number, "dtype": x.dtype.str, "shape": list(x.shape), "order": order}

    def _scalar(self, x: np.generic, path: str) -> Any:
        if x.dtype.kind not in _SCALAR_KINDS:
            self.refusals.refuse(path, f"a {type(x).__name__}, which JSON cannot hold")
            return None
        return {"scalar": x.dtype.str, "bytes": x.tobytes()[: x.dtype.itemsize].hex()}  # "" has none

    def _rare(self, x: Any, path: str) -> Any:
        if type(x) is bytes:
            return {"bytes": base64.b64encode(x).decode()}
        if type(x) is complex:
            return {"complex": [self.encode(x.real, path), self.encode(x.imag, path)]}
        if type(x) is range:
            return {"range": [self.encode(n, path) for n in (x.start, x.stop, x.step)]}
        if type(x) is torch.Size:
            return {"Size": list(x)}
        if type(x) is torch.device:
            return {"device": str(x)}
        for name, cls in _NAMED_OF_TORCH.items():
            if type(x) is cls:
                return {name: str(x).removeprefix("torch.")}
        if x is Ellipsis:
            return {"Ellipsis": None}
        self.refusals.refuse(path, f"{_described(x)}, which JSON cannot hold")
        return None


def is_text(s: str) -> bool:
    """Whether a string is made of characters. Of halves of them (surrogates) JSON would make others."""
    return s.isascii() or not any("\ud800" <= c <= "\udfff" for c in s)


def _described(x: Any) -> str:
    cls = type(x)
    name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    return f"a {name}"


# --- back ------------------------------------------------------------------------------------------------------


class ValueDecoder:
    """Turns JSON into the values that it stands for. `tensor` gives a tensor, `array` bytes, by number."""

    def __init__(self, tensor: Callable[[int], Tensor], array: Callable[[int], Tensor]) -> None:
        self._tensor, self._array = tensor, array

    def decode(self, x: Any) -> Any:
        """The value.

        Raises:
            Fault: there is no such value.
        """
        if x is None or type(x) in (bool, int, float, str):
            return x
        if type(x) is list:
            return [self.decode(a) for a in x]
        name = tag_of(x)
        content = x[name]
        decode = getattr(self, f"_as_{name}", None)
        try:
            if decode is not None:
                return decode(content, x)
            if name in MAPPINGS:
                return self._mapping(name, content, x)
            if name in _SEQUENCES and type(content) is list:
                return self._sequence(name, [self.decode(a) for a in content], x)
            if name in _NAMED_OF_TORCH and type(content) is str:
                return self._of_torch(name, content)
        except (TypeError, ValueError, LookupError, RuntimeError, OverflowError) as error:
            raise Fault(f"{shown(x)} stands for no value: {error}") from None
        raise Fault(f"{shown(x)} stands for no value that is known")

    def _sequence(self, name: str, items: list[Any], x: dict[str, Any]) -> Any:
        if name == "deque":
            return deque(items, maxlen=x["maxlen"])
        built = _SEQUENCES[name](items)
        if len(built) != len(items):
            raise Fault(f"{shown(x)} has the same element twice")
        return built

    def _mapping(self, name: str, content: Any, x: dict[str, Any]) -> Any:
        keys, values = self.keys_and_values(content)
        pairs = list(zip(keys, map(self.decode, values), strict=True))
        if name == "Counter":
            return Counter(dict(pairs))
        if name == "defaultdict":
            default = x["default"]
            return defaultdict(None if default is None else factory_of(default), pairs)
        if name == "dict":
            return dict(pairs)
        built = OrderedDict(pairs)
        if "attributes" in x:
            attributes = self.decode(x["attributes"])
            check_attributes(attributes)
            built.__dict__.update(attributes)
        return built

    def keys_and_values(self, content: Any) -> tuple[list[Any], list[Any]]:
        """The keys of a mapping, decoded, and its values as they stand there.

        Raises:
            Fault: there is no such mapping.
        """
        if type(content) is dict:
            return list(content), list(content.values())
        if type(content) is not list or len(content) % 2:
            raise Fault(f"{shown(content)} is no mapping")
        keys = [self.decode(k) for k in content[::2]]
        try:
            distinct = len(set(keys)) == len(keys)
        except TypeError as error:
            raise Fault(f"{shown(content)} is no mapping: {error}") from None
        if not distinct:
            raise Fault(f"{shown(content)} has the same key twice")
        return keys, content[1::2]

    def _as_tensor(self, content: Any, _: Any) -> Tensor:
        return self._tensor(content)

    def _as_ndarray(self, content: Any, x: dict[str, Any]) -> Any:
        dtype, shape, order = np.dtype(x["dtype"]), x["shape"], x["order"]
        plain = type(x["dtype"]) is str and dtype.kind in _SCALAR_KINDS and order in ("C", "F")
        if not plain or type(shape) is not list or not all(type(n) is int and n >= 0 for n in shape):
            raise Fault(f"{shown(x)} is no array")
        data = self._array(content).numpy()
        if math.prod(shape) * dtype.itemsize != data.nbytes:
            raise Fault(f"{shown(x)} does not have {data.nbytes} bytes")
        if not data.nbytes:
            return np.zeros(shape, dtype, order)
        if order == "F":
            return data.view(dtype).reshape(shape[::-1]).T
        return data.view(dtype).reshape(shape)

    def _as_scalar(self, content: Any, x: dict[str, Any]) -> Any:
        dtype = np.dtype(content)
        data = bytes.fromhex(x["bytes"])
        if type(content) is not str or dtype.kind not in _SCALAR_KINDS or len(data) != dtype.itemsize:
            raise Fault(f"{shown(x)} is no number of NumPy's")
        return np.frombuffer(data, dtype)[0] if data else dtype.type()

    def _as_int(self, content: Any, _: Any) -> int:
        return int(content, 16)

    def _as_float(self, content: Any, x: Any) -> float:
        if type(content) is not str or content not in _NOT_FINITE:
            raise Fault(f"{shown(x)} is no number")
        return float(content)  # a new one each time: NaNs are different keys and elements if they are two

    def _as_str(self, content: Any, _: Any) -> str:
        return bytes.fromhex(content).decode(errors="surrogatepass")

    def _as_bytes(self, content: Any, _: Any) -> bytes:
        return base64.b64decode(content, validate=True)

    def _as_complex(self, content: Any, _: Any) -> complex:
        real, imaginary = map(self.decode, content)
        return complex(real, imaginary)

    def _as_range(self, content: Any, _: Any) -> range:
        return range(*map(self.decode, content))

    def _as_Size(self, content: Any, x: Any) -> torch.Size:  # noqa: N802  # named as the type
        if type(content) is not list or not all(type(n) is int for n in content):
            raise Fault(f"{shown(x)} is no size")
        return torch.Size(content)

    def _as_device(self, content: Any, _: Any) -> torch.device:
        return torch.device(content)

    def _as_Ellipsis(self, *_: Any) -> Any:  # noqa: N802  # named as the value
        return Ellipsis

    def _of_torch(self, name: str, content: str) -> Any:
        found = getattr(torch, content, None)
        if type(found) is not _NAMED_OF_TORCH[name]:
            raise Fault(f"torch has no {name} {shown(content)}")
        return found


def no_tensor(*_: object) -> NoReturn:
    """What stands for tensors and arrays where there can be none.

    Raises:
        Fault: always.
    """
    raise Fault("there can be no tensors here")


def tag_of(x: Any) -> str:
    """What an object of JSON stands for: its first key.

    Raises:
        Fault: it is no such object.
    """
    if type(x) is not dict or not x or len(x) > 4:
        raise Fault(f"{shown(x)} stands for no value that is known")
    return str(next(iter(x)))


def factory_of(name: Any) -> Callable[[], Any]:
    """The type that makes the missing values of a `defaultdict`.

    Raises:
        Fault: there is none of this name.
    """
    if type(name) is not str or name not in _FACTORIES:
        raise Fault(f"a defaultdict of {shown(name)} is not known")
    return _FACTORIES[name]


def check_attributes(attributes: Any) -> None:
    """Sees to it that what is set on an `OrderedDict` hides none of its methods.

    Raises:
        Fault: it would.
    """
    if type(attributes) is not dict or any(unfit_attribute(name) for name in attributes):
        raise Fault(f"{shown(attributes)} are no attributes of an OrderedDict")


def unfit_attribute(name: Any) -> bool:
    """Whether an attribute of this name would change what an `OrderedDict` does."""
    return type(name) is not str or not name.isidentifier() or name.startswith("__") or hasattr(OrderedDict, name)
