"""Files over processes: in this one where they are few, else over as many as there are processors."""

from __future__ import annotations

import dataclasses
import gc
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from .files import FileToCheck
from .fix_options import FixOptions
from .one_file import check_file
from .project import Project
from .reading import digest_of
from .records import FileResult, SkippedFile

_WORTH_A_PROCESS = 400_000  # bytes of source: what one process checks in some tenths of a second
_IN_CHUNK = 150_000
_COLLECTED_AFTER = 4_000_000  # what is left of a file is freed without: only files that others import wait for it


@dataclasses.dataclass(slots=True)
class CheckedFile:
    """A file, what was found in it, and what the cache has to know.

    Attributes:
        file: which.
        result: what was found.
        digest: of its content; nothing where it could not be read.
        status: what the system said of it before it was read.
        seen: a moment before that, in nanoseconds.
        lookups: which modules were looked for meanwhile, on whose behalf, and where they were found.
        imported: the digests of the files that were read for it.
    """

    file: FileToCheck
    result: FileResult
    digest: bytes = b""
    status: os.stat_result | None = None
    seen: int = 0
    lookups: dict[str, dict[str, str | None]] = dataclasses.field(default_factory=dict)
    imported: dict[str, bytes] = dataclasses.field(default_factory=dict)


class Worker:
    """Checks files one after the other, in one process."""

    def __init__(self, fix_options: FixOptions) -> None:
        self._fix_options = fix_options
        self._project = Project()
        self._bytes = 0

    def check(self, files: Sequence[FileToCheck]) -> list[CheckedFile]:
        """What is found in some files."""
        return [self._check(file) for file in files]

    def _check(self, file: FileToCheck) -> CheckedFile:
        self._project.lookups, self._project.digests = {}, {}
        seen = time.time_ns()
        try:
            status = os.stat(file.path)
        except OSError:
            status = None
        result, content = check_file(file.path, file.codes, self._project, self._fix_options)
        self._bytes += file.size
        if self._bytes > _COLLECTED_AFTER and not gc.isenabled():
            self._bytes = 0
            gc.collect()
        digest = b"" if content is None else digest_of(content)
        return CheckedFile(file, result, digest, status, seen, self._project.lookups, self._project.digests)


def check_files(
    files: Sequence[FileToCheck], fix_options: FixOptions, processes: int | None = None
) -> Iterator[CheckedFile]:
    """What is found in each file, in any order.

    Args:
        files: to check.
        fix_options: what is done about what is found.
        processes: at most as many; None for as many as there are processors.
    """
    total = sum(file.size for file in files)
    wanted = min(processes or _processors(), 1 + total // _WORTH_A_PROCESS, len(files))
    if wanted <= 1:
        yield from _in_this_process(files, fix_options)
    else:
        yield from _in_processes(files, fix_options, wanted)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _in_this_process(files: Sequence[FileToCheck], fix_options: FixOptions) -> Iterator[CheckedFile]:
    worker = Worker(fix_options)
    enabled = gc.isenabled()
    gc.disable()  # trees are many objects; they are collected after each few megabytes
    try:
        for file in files:
            yield from worker.check([file])
    finally:
        if enabled:
            gc.enable()


def _in_processes(files: Sequence[FileToCheck], fix_options: FixOptions, processes: int) -> Iterator[CheckedFile]:
    from concurrent.futures import as_completed
    from concurrent.futures.process import BrokenProcessPool

    left = {file.path: file for file in files}
    pool = _pool(processes, fix_options)
    try:
        waiting = [pool.submit(_check_in_worker, chunk) for chunk in _chunks(files)]
        for future in as_completed(waiting):
            for checked in future.result():
                left.pop(checked.file.path, None)
                yield checked
        pool.shutdown()
        return
    except BrokenProcessPool:
        pool.shutdown(cancel_futures=True)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    yield from _one_by_one(list(left.values()), fix_options)


def _one_by_one(files: Sequence[FileToCheck], fix_options: FixOptions) -> Iterator[CheckedFile]:
    """The rest after a process has died, each alone: the one that kills its process is told."""
    from concurrent.futures.process import BrokenProcessPool

    pool = _pool(1, fix_options)
    for file in files:
        try:
            yield from pool.submit(_check_in_worker, [file]).result()
        except BrokenProcessPool:
            skipped = SkippedFile(file.path, "ends the process that reads it", is_error=True)
            yield CheckedFile(file, FileResult(skipped=(skipped,), is_read=False))
            pool.shutdown(cancel_futures=True)
            pool = _pool(1, fix_options)
    pool.shutdown()


def _pool(processes: int, fix_options: FixOptions) -> Any:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    forks = sys.platform == "linux" and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if forks else "spawn")
    return ProcessPoolExecutor(processes, mp_context=context, initializer=_start_worker, initargs=(fix_options,))


def _chunks(files: Sequence[FileToCheck]) -> Iterator[list[FileToCheck]]:
    """Neighbours together: they import the same modules. The longest chunks come first."""
    chunks: list[list[FileToCheck]] = [[]]
    size = 0
    for file in files:
        if size > _IN_CHUNK or len(chunks[-1]) >= 100:
            chunks.append([])
            size = 0
        chunks[-1].append(file)
        size += file.size
    yield from sorted(chunks, key=lambda chunk: -sum(file.size for file in chunk))


_worker: Worker | None = None


def _start_worker(fix_options: FixOptions) -> None:
    import signal

    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is told to all; the first process ends the others
    gc.disable()
    _worker = Worker(fix_options)


def _check_in_worker(files: list[FileToCheck]) -> list[CheckedFile]:
    if _worker is None:
        raise RuntimeError("the process was not started as a worker")
    return _worker.check(files)
