"""`tc.audit()`: audits what runs inside of it."""

from __future__ import annotations

import contextlib
import linecache
import platform
from collections.abc import Iterable
from time import perf_counter
from types import TracebackType
from typing import Self

import torch

from .._errors import InputError
from .._version import __version__
from ..semantics.codes import find_code
from .auditor import Auditor
from .naming.ignores import Ignores
from .naming.sites import shown_path
from .records import Finding, Report
from .watching.patches import Patches, running

_LONGEST_SOURCE = 1_000_000
_active: Audit | None = None


class Audit(contextlib.ContextDecorator):
    """Watches a program, and tells which copies are missing in it and which were never needed, by source line.

    The program runs as it would without: the same results to the bit, the same errors. Compiled functions run
    compiled, and are told as opaque. Threads that are started meanwhile are watched too.

    The four questions: is storage shared? No tensor is held, none is copied. Is the graph kept? It is not touched.
    Does it synchronise? No. Is an input changed? No.

    Attributes:
        is_whole_program: whether the program ends with the audit, so that what was not written until then never is.

    Args:
        select: codes to look for, or their beginnings: `["TC1", "TC201"]`. None for all that are on by themselves.
        ignore: codes, or their beginnings, to leave out.
        first_steps: how many optimizer steps are audited; then the program runs on at full speed. None for all.

    Raises:
        InputError: an option has no such value, or another audit runs.

    Example:
        >>> import torch, torchcopy as tc
        >>> model = torch.nn.Linear(2, 1)
        >>> with tc.audit() as audit:
        ...     best = model.state_dict()
        ...     with torch.no_grad():
        ...         _ = model.weight.zero_()
        ...     _ = model.load_state_dict(best)
        >>> audit.report.findings[0].code
        'TC101'
    """

    def __init__(
        self,
        *,
        select: Iterable[str] | None = None,
        ignore: Iterable[str] = (),
        first_steps: int | None = None,
    ) -> None:
        self._select = _codes("select", select)
        self._ignore = _codes("ignore", ignore) or ()
        if first_steps is not None and (
            isinstance(first_steps, bool) or not isinstance(first_steps, int) or first_steps < 1
        ):
            raise InputError(
                f"`first_steps` must be a number of optimizer steps from 1 on, or None; got {first_steps!r}"
            )
        self._first_steps = first_steps
        self._auditor: Auditor | None = None
        self._report: Report | None = None
        self._stack = contextlib.ExitStack()
        self._ended_by = ""
        self._program = ""
        self.is_whole_program = False

    def _recreate_cm(self) -> Self:
        """A decorated function is audited anew in each call; the report is that of the last one."""
        return self

    def __enter__(self) -> Self:
        global _active
        if _active is not None:
            raise InputError("an audit runs already: one at a time")
        self._report, self._ended_by = None, ""
        auditor = self._auditor = Auditor(self._first_steps, wants_idioms=self._selects("TC301"))
        patches = Patches(auditor)
        mode = auditor.mode()
        _active = self
        running(auditor, starts=True)
        self._stack = contextlib.ExitStack()
        self._stack.callback(self._over)
        self._stack.callback(patches.remove)
        self._stack.callback(mode.leave)
        mode.__enter__()

        def end() -> None:
            auditor.stop()
            mode.leave_if_innermost()

        patches.install(end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del trace
        if kind is not None and self._auditor is not None:
            self._ended_by = "".join(f"{kind.__name__}: {error}".splitlines()[:1])
        if self._auditor is not None:
            self._auditor.to_the_end = self.is_whole_program and self._auditor.first_steps is None
            try:
                self._auditor.stop()
            finally:
                self._stack.close()
            self._report = self._made()

    def _over(self) -> None:
        global _active
        _active = None
        if self._auditor is not None:
            running(self._auditor, starts=False)

    @property
    def report(self) -> Report:
        """What was found; while the audit runs, what was found so far.

        Raises:
            InputError: nothing was audited yet.
        """
        if self._report is not None:
            return self._report
        if self._auditor is None:
            raise InputError("nothing was audited yet: `with tc.audit() as audit: …`")
        return self._made()

    def _made(self) -> Report:
        auditor = self._auditor
        assert auditor is not None
        ignores = Ignores(auditor.sites.files())
        findings = [f for f in auditor.findings.as_records() if self._wants(f) and not ignores.silences(f)]
        copies = auditor.copies.as_records(auditor.sites)
        shown = {place.line.path for f in findings for place in f.places} | {row.line.path for row in copies}
        return Report(
            findings=tuple(findings),
            copies=copies,
            opaque=dict(auditor.opaque),
            unused_ignores=ignores.unused(),
            timeline=auditor.copies.timeline.points(),
            sources=_sources(auditor.sites.files(), shown),
            program=self._program,
            seconds=perf_counter() - auditor.started,
            steps=auditor.steps,
            audited_steps=auditor.audited_steps,
            ended_by=self._ended_by,
            versions={"torchcopy": __version__, "torch": torch.__version__, "python": platform.python_version()},
        )

    def _wants(self, finding: Finding) -> bool:
        return self._selects(finding.code) and not any(finding.code.startswith(code) for code in self._ignore)

    def _selects(self, code: str) -> bool:
        if self._select is None:
            return find_code(code).on
        return any(code.startswith(beginning) for beginning in self._select)


def audit(
    *, select: Iterable[str] | None = None, ignore: Iterable[str] = (), first_steps: int | None = None
) -> Audit:
    """Audits what runs inside of a `with` block, or a decorated function; see `Audit`."""
    return Audit(select=select, ignore=ignore, first_steps=first_steps)


def _codes(name: str, codes: Iterable[str] | None) -> tuple[str, ...] | None:
    if codes is None:
        return None
    if isinstance(codes, str):
        raise InputError(f"`{name}` must be a list of codes such as ['TC1']; got {codes!r}")
    found = tuple(codes)
    for code in found:
        if not (isinstance(code, str) and code.startswith("TC") and len(code) <= 5 and code[2:].isdigit()):
            raise InputError(f"`{name}` must have codes such as 'TC101', or their beginnings; got {code!r}")
    return found


def _sources(files: Iterable[str], shown: set[str]) -> dict[str, str]:
    texts = {shown_path(path): "".join(linecache.getlines(path)) for path in files if shown_path(path) in shown}
    return {path: text for path, text in sorted(texts.items()) if 0 < len(text) <= _LONGEST_SOURCE}
