"""Tells the Linux kernel how memory is going to be used."""

from __future__ import annotations

import ctypes
import functools
import mmap
import sys
from collections.abc import Callable

HUGE_PAGES = 14
"""Back it with huge pages. (`MADV_HUGEPAGE`)"""
NO_MORE_NEEDED = 8
"""Take its pages when memory is short, unless they are written first. (`MADV_FREE`, since Linux 4.5)"""

Advise = Callable[[int, int, int], int]
"""Address, bytes, advice; 0 where the kernel took it."""


@functools.cache
def madvise() -> Advise | None:
    """The C library's `madvise`; None on other systems."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        call = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    call.restype = ctypes.c_int
    return call


@functools.cache
def can_offer_pages() -> bool:
    """Whether the kernel knows memory that it may take back later."""
    advise = madvise()
    if advise is None:
        return False
    with mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as page:
        address = ctypes.addressof(there := ctypes.c_char.from_buffer(page))
        taken = advise(address, mmap.PAGESIZE, NO_MORE_NEEDED) == 0
        del there  # the page cannot be unmapped before
    return taken


def whole_pages(start: int, size: int, page: int = mmap.PAGESIZE) -> tuple[int, int]:
    """Address and bytes of the whole pages within some memory; 0 bytes where there are none."""
    first, last = -(-start // page) * page, (start + size) // page * page
    return first, max(0, last - first)
