"""A pytest plugin: a test in which a copy is missing fails with the finding.

`pytest --copy-audit` audits each test, the marker `copy_audit` one: `@pytest.mark.copy_audit(select=["TC1"])`.
Nothing of torchcopy is loaded before a test is audited.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .auditing.records import Finding

_MARKER = (
    "copy_audit(select=None, ignore=()): audit the copies of this test; it fails if one is missing. "
    "`select` and `ignore` take codes or families of them, such as TC101 or TC2."
)
_SECTION = "copy audit"
_WASTE = "copy_audit_waste"  # an attribute of a test's report, plain data that pytest-xdist carries over
_MOST_LINES = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--copy-audit`."""
    parser.getgroup("torchcopy").addoption(
        "--copy-audit",
        action="store_true",
        help="Audit the copies in each test: missing ones fail it, needless ones are told at the end.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker, and adds the summary."""
    config.addinivalue_line("markers", _MARKER)
    config.pluginmanager.register(_Summary(), "torchcopy-audit-summary")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuses a marker that says what no audit understands, before any test runs."""
    for item in items:
        marker = item.get_closest_marker("copy_audit")
        if marker is not None:
            _options(marker, item.nodeid)


def _options(marker: pytest.Mark, test: str) -> dict[str, Any]:
    from ._errors import InputError
    from .semantics.codes import match_codes

    if marker.args or set(marker.kwargs) - {"select", "ignore"}:
        raise pytest.UsageError(f"{test}: the marker `copy_audit` takes `select` and `ignore`, by name")
    options = {name: codes for name, codes in marker.kwargs.items() if codes is not None}
    try:
        return {name: [code.code for code in match_codes(codes)] for name, codes in options.items()}
    except InputError as error:
        raise pytest.UsageError(f"{test}: `copy_audit`: {error}") from error


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Audits the test itself, its fixtures not."""
    marker = item.get_closest_marker("copy_audit")
    if marker is None and not item.config.getoption("copy_audit"):
        return (yield)
    from .auditing.session import Audit

    audit = Audit(**(_options(marker, item.nodeid) if marker is not None else {}))
    try:
        with audit:
            result = yield
    except BaseException:
        _note(item, audit)
        raise
    waste = audit.report.waste
    item.stash[_FOUND] = [_in_one_line(finding) for finding in waste]
    if audit.report.hazards:
        pytest.fail(_as_text(audit.report.hazards), pytrace=False)
    return result


_FOUND: pytest.StashKey[list[str]] = pytest.StashKey()


def _note(item: pytest.Item, audit: Any) -> None:
    """A test that fails by itself says beside it which hazards happened."""
    report = audit.report
    item.stash[_FOUND] = [_in_one_line(finding) for finding in report.waste]
    if report.hazards:
        item.add_report_section("call", _SECTION, _as_text(report.hazards))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Hands what was found to the report, which reaches the process that writes the summary."""
    report = yield
    if call.when == "call" and (found := item.stash.get(_FOUND, None)):
        setattr(report, _WASTE, found)
    return report


class _Summary:
    """Gathers the waste of all tests and tells it at the end; it fails none."""

    def __init__(self) -> None:
        self._tests: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps what one test found."""
        for line in getattr(report, _WASTE, ()):
            self._tests.setdefault(line, []).append(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Tells each line once, with a test that goes through it."""
        if not self._tests:
            return
        terminalreporter.section("copies that were not needed")
        for line, tests in list(self._tests.items())[:_MOST_LINES]:
            others = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
            terminalreporter.write_line(f"{line}  [{tests[0]}{others}]")
        if len(self._tests) > _MOST_LINES:
            terminalreporter.write_line(f"… and {len(self._tests) - _MOST_LINES} more lines")


def _in_one_line(finding: Finding) -> str:
    return f"{finding.path}:{finding.line}: {finding.code} {finding.message}"


def _as_text(findings: tuple[Finding, ...]) -> str:
    from .reporters.audit import finding_as_text

    return "\n".join(finding_as_text(finding) for finding in findings).rstrip()
