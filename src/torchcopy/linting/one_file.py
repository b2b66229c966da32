"""One file from its bytes to its results, with fixes written where they are asked for."""

from __future__ import annotations

import dataclasses

from .._errors import InputError
from .checking import Checked, check
from .documents import Document, open_document
from .fix_options import FixOptions
from .fixing import fix
from .project import Project
from .reading import NotReadError, read_bytes
from .records import FileResult, SkippedFile
from .writing import replace_file


def check_file(
    path: str, codes: frozenset[str], project: Project, fix_options: FixOptions
) -> tuple[FileResult, bytes | None]:
    """What is found in the file at the absolute `path`, and the bytes that it was found in."""
    content: bytes | None = None
    try:
        content = read_bytes(path)
        return _check(path, content, codes, project, fix_options), content
    except NotReadError as error:
        return FileResult(skipped=(SkippedFile(path, str(error), error.line),), is_read=False), content


def _check(
    path: str, content: bytes, codes: frozenset[str], project: Project, fix_options: FixOptions
) -> FileResult:
    document = open_document(path, content)
    if fix_options.fixes == "none":
        return _result(document, check(document.source, codes, project))
    fixed = fix(document, codes, project, unsafe=fix_options.unsafe)
    if fixed.record is not None and fix_options.fixes == "written":
        try:
            replace_file(path, content, fixed.document.encode())
        except InputError as error:
            unfixed = _result(document, check(document.source, codes, project))
            refused = SkippedFile(path, f"was not fixed: {error}", is_error=True)
            return dataclasses.replace(unfixed, skipped=(*unfixed.skipped, refused))
    result = dataclasses.replace(_result(fixed.document, fixed.checked), fixed=fixed.record)
    if fixed.is_unfinished:
        left = SkippedFile(path, "was not fixed to the end: each fix leaves another to make", is_error=True)
        return dataclasses.replace(result, skipped=(*result.skipped, left))
    return result


def _result(document: Document, checked: Checked) -> FileResult:
    faults = [
        SkippedFile(document.path, f"a fault of {code}: {type(error).__name__}: {error}", is_error=True)
        for code, error in checked.faults
    ]
    return FileResult(
        findings=tuple(map(document.place, checked.findings)),
        skipped=(*document.broken_parts(), *faults),
        unused=tuple(document.place_comment(comment, reason) for comment, reason in checked.unused),
    )
