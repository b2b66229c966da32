"""Where a saved state does not fit what is there now, in lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from ..._tensors import dtype_name


def geometry(t: Tensor) -> str:
    """`float32[2, 3]`: what has to be equal for a tensor to be written in place."""
    return f"{dtype_name(t.dtype)}[{', '.join(map(str, t.shape))}]"


def fits(live: Tensor, saved: Tensor) -> bool:
    """Whether `saved` can be written into `live` without a change to either's meaning."""
    return live.shape == saved.shape and live.dtype == saved.dtype and live.layout == saved.layout


def name_differences(path: str, live: Iterable[Any], saved: Iterable[Any]) -> list[str]:
    """Names that only one side has."""
    here, there = list(live), list(saved)
    known_here, known_there = set(here), set(there)
    return [
        *(f"{path}[{name!r}]: in the snapshot, not in the object" for name in there if name not in known_here),
        *(f"{path}[{name!r}]: in the object, not in the snapshot" for name in here if name not in known_there),
    ]


def tensor_differences(path: str, live: Mapping[Any, Any], saved: Mapping[Any, Any]) -> list[str]:
    """Tensors of one name that do not fit."""
    return [
        f"{path}[{name!r}]: expected {geometry(t)} as in the object, found {geometry(saved[name])}"
        for name, t in live.items()
        if name in saved and isinstance(t, Tensor) and isinstance(saved[name], Tensor) and not fits(t, saved[name])
    ]
