"""Asks Linux to back new tensors with huge pages.

Fresh memory costs more than the copying: the kernel hands it out, zeroed, at the first write to each page of 4 kB.
Pages of 2 MB are handed out 512 times less often. Linux gives them on request where
`/sys/kernel/mm/transparent_hugepage/enabled` says `madvise`, the default of many distributions.
See docs/decisions/0008.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from torch import Tensor

_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SIZE_FILE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
_MADV_HUGEPAGE = 14


def advise_huge_pages(tensors: Iterable[Tensor]) -> None:
    """Asks for huge pages for new tensors in main memory, before their first write. A hint: it never fails."""
    advise = _advice()
    if advise is None:
        return
    page, call = advise
    spans = sorted((t.data_ptr(), t.nbytes) for t in tensors if t.device.type == "cpu")
    # Neighbours on the heap share huge pages: small tensors too can lie on one.
    start = stop = 0
    for address, size in spans:
        if address - stop > page or not stop:
            _call(call, page, start, stop)
            start = address
        stop = address + size
    _call(call, page, start, stop)


def _call(call: Callable[[int, int, int], int], page: int, start: int, stop: int) -> None:
    if stop - start >= page:
        first, last = -(-start // page) * page, stop // page * page
        if last > first:
            call(first, last - first, _MADV_HUGEPAGE)


@functools.cache
def _advice() -> tuple[int, Callable[[int, int, int], int]] | None:
    """The size of a huge page and `madvise`, where asking makes a difference."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        if "[madvise]" not in _SETTING.read_text():
            return None
        page = int(_SIZE_FILE.read_text())
        madvise = ctypes.CDLL(None).madvise
    except (OSError, ValueError, AttributeError):
        return None
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    madvise.restype = ctypes.c_int
    return page, madvise
