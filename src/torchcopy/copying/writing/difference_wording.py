"""How an error names what it found and where: paths, tensors and other values, in a few characters."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._tensors import describe, dtype_name

Path = tuple[Any, str, Any]
"""A link of a path: the link before it or None, how the key is written (`.`, `[]`, or nothing), and the key."""

_LONGEST = 60


def path_text(path: Path | None) -> str:
    """The path as Python would write it: `dst['optimizer'].state[3]['exp_avg']`."""
    steps: list[str] = []
    while path is not None:
        path, style, key = path
        steps.append(f"[{_shown(key)}]" if style == "[]" else f"{style}{key}")
    return "".join(reversed(steps))


def same_place(a: Path, b: Path) -> bool:
    """Whether both paths are the same below their roots."""
    return path_text(a)[len("dst") :] == path_text(b)[len("src") :]


def described(value: object) -> str:
    """Any value in a few characters: `float32[2, 3] cpu`, `a dict of 3`, `0.001`."""
    if isinstance(value, Tensor):
        return _described_tensor(value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}] numpy"
    if isinstance(value, (Mapping, list, tuple, set)):
        return f"a {type(value).__name__} of {len(value)}"
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, enum.Enum)):
        return _shortened(repr(value))
    return f"a `{type(value).__name__}`"


def _described_tensor(t: Tensor) -> str:
    try:
        layout = "" if t.layout is torch.strided else f" {t.layout}".replace("torch.", "")
        return describe(t) + layout
    except (RuntimeError, ValueError):  # nested tensors and uninitialised parameters have no shape
        return f"a `{type(t).__name__}` of {dtype_name(t.dtype)}"


def _shown(key: object) -> str:
    return described(key) if isinstance(key, Tensor) else _shortened(repr(key))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
