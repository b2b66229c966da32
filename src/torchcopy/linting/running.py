"""A run: files are found, those that are as they were are taken from the cache, the rest is checked."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from .cache import Cache
from .files import FileToCheck, find_files
from .fix_options import FixOptions
from .project import module_path
from .records import FileResult, FixedFile, LintReport, PlacedFinding, SkippedFile, UnusedComment
from .result_texts import as_text, from_text
from .settings import SettingsFinder

if TYPE_CHECKING:
    from .processes import CheckedFile

_MOST_KEPT = 2_000_000  # characters of the findings of one file: each has its lines


def lint(
    paths: Sequence[str],
    *,
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    fix_options: FixOptions | None = None,
    cache: bool = True,
    cache_folder: str | None = None,
    processes: int | None = None,
    force_exclude: bool = False,
) -> LintReport:
    """Checks files, and those in folders.

    Args:
        paths: files and folders.
        select: codes or beginnings of codes that are looked for, in place of those of the settings.
        ignore: codes that are not looked for, beside those of the settings.
        fix_options: which fixes are made, and whether they are written.
        cache: whether what an earlier run has found is taken, and what this one finds is kept.
        cache_folder: where; None for where caches of this user are.
        processes: at most as many; None for as many as there are processors.
        force_exclude: whether what is excluded is left out even if it is named.

    Raises:
        InputError: a path, a code or the settings cannot be used. Nothing was written.
    """
    fix_options = fix_options or FixOptions()
    module_path.cache_clear()  # files may have come and gone since an earlier run in this process
    finder = SettingsFinder(select=select, ignore=ignore)
    files, folders = find_files(paths, finder, force_exclude=force_exclude)
    known: dict[str, FileResult] = {}
    store = Cache(cache_folder) if cache else None
    if store is not None:
        store.load([file.path for file in files])
        known = {file.path: result for file in files if (result := _known(store, file, fix_options)) is not None}
    results = dict(known)
    checked = _check([file for file in files if file.path not in known], fix_options, processes)
    for each in checked:
        results[each.file.path] = each.result
        if store is not None and _is_worth_keeping(each.result):
            _keep(store, each)
    if store is not None:
        for each in checked:
            store.keep_imports(each.lookups, each.imported)
        store.save()
    return _report([results[file.path] for file in files], folders, cached=len(known))


def _check(files: list[FileToCheck], fix_options: FixOptions, processes: int | None) -> list[CheckedFile]:
    if not files:
        return []
    from .processes import check_files  # and the rules, which take as long to load as some files to check

    return list(check_files(files, fix_options, processes))


def _keep(store: Cache, each: CheckedFile) -> None:
    text = as_text(each.result)
    if each.digest and each.status is not None and len(text) <= _MOST_KEPT:
        store.keep(each.file.path, each.digest, each.status, each.seen, each.file.codes, text)


def _is_worth_keeping(result: FileResult) -> bool:
    """Not what was found before a fix, or in spite of a fault of ours."""
    return result.fixed is None and not any(each.is_error for each in result.skipped)


def _known(store: Cache, file: FileToCheck, fix_options: FixOptions) -> FileResult | None:
    """What the cache knows of a file, unless there is something to fix in it."""
    text = store.result(file.path, file.codes)
    result = None if text is None else from_text(text)
    if result is None or fix_options.fixes == "none":
        return result
    return None if any(each.fixable and (each.safe or fix_options.unsafe) for each in result.findings) else result


def _report(results: Sequence[FileResult], folders: Sequence[SkippedFile], cached: int) -> LintReport:
    return LintReport(
        findings=tuple(_shown(finding) for result in results for finding in result.findings),
        skipped=tuple(map(_shown, [*folders, *(skipped for result in results for skipped in result.skipped)])),
        unused=tuple(_shown(comment) for result in results for comment in result.unused),
        fixed=tuple(_shown(result.fixed) for result in results if result.fixed is not None),
        files_read=sum(result.is_read for result in results),
        files_skipped=sum(not result.is_read for result in results),
        files_cached=cached,
    )


_Record = TypeVar("_Record", PlacedFinding, SkippedFile, UnusedComment, FixedFile)


def _shown(record: _Record) -> _Record:
    """The record with its path as it is shown: relative to the working directory where it lies below it."""
    try:
        relative = os.path.relpath(record.path)
    except ValueError:  # another drive
        return record
    return record if relative.startswith("..") else dataclasses.replace(record, path=relative)
