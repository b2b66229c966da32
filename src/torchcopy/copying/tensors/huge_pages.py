"""Asks Linux to back new tensors with huge pages.

Fresh memory costs more than the copying: the kernel hands it out, zeroed, at the first write to each page of 4 kB.
Pages of 2 MB are handed out 512 times less often. Linux gives them on request where
`/sys/kernel/mm/transparent_hugepage/enabled` says `madvise`, the default of many distributions.
See docs/decisions/0008.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

from .madvise import HUGE_PAGES, Advise, madvise, whole_pages

_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SIZE_FILE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
_BALLOONS = Path("/sys/bus/virtio/drivers/virtio_balloon")
_REPORTS_FREE_PAGES = 5  # the number of a feature of that driver


def advise_huge_pages(tensors: Iterable[Tensor]) -> None:
    """Asks for huge pages for new tensors in main memory, before their first write. A hint: it never fails."""
    advise, page = madvise(), _page()
    if advise is None or page is None:
        return
    spans = sorted((t.data_ptr(), t.nbytes) for t in tensors if t.device.type == "cpu")
    # Neighbours on the heap share huge pages: small tensors too can lie on one.
    start = stop = 0
    for address, size in spans:
        if address - stop > page or not stop:
            _call(advise, page, start, stop)
            start = address
        stop = address + size
    _call(advise, page, start, stop)


def _call(advise: Advise, page: int, start: int, stop: int) -> None:
    if stop - start >= page:
        first, size = whole_pages(start, stop - start, page)
        if size:
            advise(first, size, HUGE_PAGES)


@functools.cache
def _page() -> int | None:
    """The size of a huge page, where asking for some makes a copy quicker."""
    try:
        if "[madvise]" not in _SETTING.read_text() or _host_takes_free_pages():
            return None
        return int(_SIZE_FILE.read_text())
    except (OSError, ValueError):
        return None


def _host_takes_free_pages() -> bool:
    """Whether this is a virtual machine that hands what it has freed, huge pages above all, back to its host.

    The first write to such a page waits for the host, and to zero a huge one touches 512 of its pages.
    """
    features = (path.read_text() for path in _BALLOONS.glob("virtio*/features"))
    return any(bits[_REPORTS_FREE_PAGES : _REPORTS_FREE_PAGES + 1] == "1" for bits in features)
