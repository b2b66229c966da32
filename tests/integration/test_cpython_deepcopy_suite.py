"""CPython's own tests of `copy.deepcopy`, as installed with this Python, run on `tc.copy`.

Nothing of them is kept here: the installed module is loaded anew, and finds `tc.copy` where it looks for
`copy.deepcopy`.
"""

import copy
import importlib.util
import sys
import types
import unittest

import pytest

import torchcopy as tc

HOME = "test.test_copy"


def _find_suite():
    """Where the installed suite is; None where this Python was built, or packaged, without its own tests."""
    try:
        return importlib.util.find_spec(HOME)
    except ModuleNotFoundError as error:
        if error.name == "test":
            return None
        raise


def _load_suite(spec):
    """The suite's module, its `copy` replaced, and the list of calls of `deepcopy` that it has made."""
    calls = []

    def deepcopy(x, memo=None):
        calls.append(x)
        return tc.copy(x, memo=memo)

    deepcopy.__module__ = "copy"  # the suite of newer Pythons asks
    shim = types.ModuleType("copy")
    shim.__dict__.update(vars(copy), deepcopy=deepcopy)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.copy is copy
    module.copy = shim
    return module, calls


SPEC = _find_suite()
SUITE, CALLS = (None, []) if SPEC is None else _load_suite(SPEC)
CASES = (
    []
    if SUITE is None
    else [
        pytest.param(case, name, id=f"{case.__name__}.{name}")
        for case in vars(SUITE).values()
        if isinstance(case, type) and issubclass(case, unittest.TestCase)
        for name in unittest.defaultTestLoader.getTestCaseNames(case)
    ]
)
AT_LEAST = 35
"""Python 3.11 to 3.13 have 37 tests of `deepcopy`; far fewer means that they were not found."""


def test_the_suite_was_found():
    if SUITE is None:
        pytest.skip(
            f"Python {sys.version.split()[0]} at {sys.base_prefix} has no `{HOME}`: on Debian and Ubuntu it comes "
            "with `libpython3-testsuite`. Until then nothing here compares `tc.copy` with CPython's own tests"
        )
    assert sum("deepcopy" in case.id for case in CASES) >= AT_LEAST


@pytest.mark.parametrize(("case", "name"), CASES)
def test_copy_passes_what_deepcopy_passes(case, name):
    CALLS.clear()
    result = unittest.TestResult()
    case(name).run(result)
    assert not result.failures + result.errors + result.unexpectedSuccesses, "\n".join(
        report for _, report in result.failures + result.errors
    )
    if result.skipped:
        pytest.skip(result.skipped[0][1])
    assert bool(CALLS) >= ("deepcopy" in name), "it never called the replaced `deepcopy`"
