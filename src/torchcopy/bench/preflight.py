"""Every check of a bench's input, made before the first measurement: sizes, memory, output files.

Each refusal is one line that says what to do. Nothing here measures, and no file keeps a trace of the check.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path

import torch

from .._errors import InputError
from .._output_files import check_distinct, check_writable
from .._tensors import format_bytes
from ..semantics.machine import memory_bytes

DEFAULT_SIZES: tuple[int, ...] = tuple(2**k for k in (*range(15), *range(16, 27, 2)))
"""The article's 2^0 … 2^14, then every second power up to 2^26."""

LARGEST_SIZE = 2**62
PLOT_SUFFIXES = (".png", ".svg")

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_NUMBER = re.compile(r"(\d[\d_]*(?:\.\d+)?(?:e\+?\d{1,2})?)([kmg]i?)?", re.IGNORECASE)
_POWER = re.compile(r"(\d{1,19})\s*(?:\^|\*\*)\s*(\d{1,2})")
_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")
_SHARE_TO_USE = 0.9  # of the free memory: the interpreter, the plot and the neighbours need some too


# --- sizes ---------------------------------------------------------------------------------------------------


def parse_size(text: str | int) -> int:
    """The number of elements that `text` means: `1000`, `2^20`, `1M` (a million), `1Mi` (2^20), `1e6`.

    No tensor is involved: nothing is shared, synchronised or changed.

    Raises:
        InputError: it is no such number, not whole, or below 1.

    Example:
        >>> from torchcopy.bench.preflight import parse_size
        >>> parse_size("2^20"), parse_size("1M"), parse_size("1_000")
        (1048576, 1000000, 1000)
    """
    if isinstance(text, int) and not isinstance(text, bool):
        value: float = text
    else:
        cleaned = str(text).strip()
        if power := _POWER.fullmatch(cleaned):
            value = int(power[1]) ** int(power[2])
        elif number := _NUMBER.fullmatch(cleaned):
            digits, unit = number[1].replace("_", ""), _UNITS[(number[2] or "").lower()]
            value = (int(digits) if digits.isdigit() else float(digits)) * unit
        else:
            raise InputError(f"size {text!r} is not a number of elements: write `1000`, `2^20`, `1M` or `1e6`")
    if value != math.floor(value) or value < 1:
        raise InputError(f"size {text!r} must be a whole number of elements, at least 1")
    if value > LARGEST_SIZE:
        raise InputError(f"size {text!r} is more than a tensor can have: the most is 2^62")
    return int(value)


def parse_sizes(texts: Iterable[str | int] | None) -> tuple[int, ...]:
    """The sizes that `texts` mean, each once, smallest first; the default sizes for None.

    A range doubles from its first size to its last: `1k..1M`; `2^0..2^14`, `10^1..10^6` take each power.

    Raises:
        InputError: one of them is no size, a range runs backwards, or there is none at all.
    """
    if texts is None:
        return DEFAULT_SIZES
    if isinstance(texts, str | int):
        texts = (texts,)
    sizes: set[int] = set()
    for text in texts:
        first, dots, last = str(text).partition("..")
        sizes.update(_range(str(text), first, last) if dots else (parse_size(text),))
    if not sizes:
        raise InputError("no size is left to measure: give one, such as `--size 2^20`")
    return tuple(sorted(sizes))


def _range(text: str, first: str, last: str) -> list[int]:
    low, high = parse_size(first), parse_size(last)
    if low > high:
        raise InputError(f"the range {text!r} runs backwards: write `{last.strip()}..{first.strip()}`")
    powers = [_POWER.fullmatch(end.strip()) for end in (first, last)]
    base = 2
    if powers[0] and powers[1] and powers[0][1] == powers[1][1]:
        base = max(2, int(powers[0][1]))
    sizes = [low]
    while sizes[-1] * base <= high:
        sizes.append(sizes[-1] * base)
    return sizes if sizes[-1] == high else [*sizes, high]


def format_size(numel: int) -> str:
    """A number of elements for people: `2^20` for powers of two from 1,024 on, else `1,000`."""
    exponent = numel.bit_length() - 1
    return f"2^{exponent}" if numel == 1 << exponent and numel >= 1024 else f"{numel:,}"


# --- memory --------------------------------------------------------------------------------------------------


def free_memory_bytes(device: torch.device) -> int | None:
    """Bytes that can still be allocated on `device`; None where it does not tell. Reads only."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    if device.type != "cpu":
        return None
    known = [found for found in (_available_bytes(), _cgroup_bytes()) if found is not None]
    return min(known) if known else memory_bytes()


def _available_bytes() -> int | None:
    """What the kernel says is available; on systems without /proc, the free pages."""
    try:
        match = re.search(r"^MemAvailable:\s+(\d+) kB$", _MEMINFO.read_text(encoding="ascii"), flags=re.MULTILINE)
    except OSError:
        match = None
    if match:
        return int(match[1]) * 1024
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _cgroup_bytes() -> int | None:
    """What the control group of a container or a batch system leaves; None where there is no limit."""
    left = []
    for limit, usage in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            most = (_CGROUP / limit).read_text(encoding="ascii").strip()
            used = (_CGROUP / usage).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if most.isdigit() and used.isdigit():
            left.append(max(int(most) - int(used), 0))
    return min(left) if left else None


def check_memory(needed_bytes: int, device: torch.device, *, what: str, instead: str) -> None:
    """Refuses what does not fit into 90 % of the free memory of `device`.

    Args:
        needed_bytes: the most that will be held at one moment.
        device: where.
        what: what needs it, as the error names it.
        instead: what to do about it.

    Raises:
        InputError: it does not fit.
    """
    free = free_memory_bytes(device)
    if free is None or needed_bytes <= _SHARE_TO_USE * free:
        return
    needs = f"{what} needs {format_bytes(needed_bytes)} at its peak"
    raise InputError(f"{needs}, and {format_bytes(free)} is free on {device}: {instead}")


# --- time and files ------------------------------------------------------------------------------------------


def check_max_seconds(max_seconds: float) -> float:
    """`max_seconds`, if a bench can be given it.

    Raises:
        InputError: it is not a positive, finite number.
    """
    if isinstance(max_seconds, bool) or not isinstance(max_seconds, int | float):
        raise InputError(f"`max_seconds` must be a number of seconds; got {max_seconds!r}")
    if not (math.isfinite(max_seconds) and max_seconds > 0):
        raise InputError(f"`max_seconds` must be a positive number of seconds; got {max_seconds!r}")
    return float(max_seconds)


def check_outputs(*, plot: Path | None = None, html: Path | None = None, json: Path | None = None) -> None:
    """Refuses output files that could not be written once the measuring is done. Leaves no file behind.

    Raises:
        InputError: a folder is missing or closed, two outputs are one file, the plot's suffix is unknown, or a
            plot is asked for and matplotlib is not installed.
    """
    outputs = {"--plot": plot, "--html": html, "--json": json}
    for option, path in outputs.items():
        if path is None:
            continue
        if option == "--plot":
            check_plot(path)
        check_writable(path, option)
    check_distinct(outputs)


def check_plot(path: Path) -> None:
    """Refuses a plot that cannot be drawn.

    Raises:
        InputError: the suffix is neither `.png` nor `.svg`, or matplotlib is not installed.
    """
    if path.suffix.lower() not in PLOT_SUFFIXES:
        raise InputError(f"`--plot {path}`: the name must end in .png or .svg")
    if not has_matplotlib():
        raise InputError("`--plot` needs matplotlib, which is not installed: pip install 'torchcopy[plots]'")


def has_matplotlib() -> bool:
    """Whether plots can be drawn. Does not import it."""
    return importlib.util.find_spec("matplotlib") is not None
