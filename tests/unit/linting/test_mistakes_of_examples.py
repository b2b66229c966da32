"""The programs of `examples/buggy`: linter and audit find the same mistake, or its page says why one alone can."""

from pathlib import Path

import pytest

import lint_fixtures as fixtures
from torchcopy.linting.fix_options import FixOptions
from torchcopy.semantics.codes import find_code

BUGGY = Path(__file__).parents[3] / "examples" / "buggy"
PROGRAMS = [path for path in sorted(BUGGY.glob("tc*.py")) if not path.stem.endswith("_fixed")]
BY_THE_AUDIT_ALONE = {"TC106": "kept in a dictionary", "TC202": "in two statements"}


def code_of(path):
    return path.name[:5].upper()


def codes_found(path):
    """The codes found in a program; in its own folder settings would leave it out."""
    return {each.code for each in fixtures.findings_at(path, code_of(path), FixOptions()).findings}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_mistake_is_found_in_the_source_too_or_its_page_says_why_not(program):
    code = find_code(code_of(program))
    if code.linted and code.code not in BY_THE_AUDIT_ALONE:
        assert code.code in codes_found(program)
    else:
        assert code.code not in codes_found(program)
        if code.linted:
            told = " ".join(code.in_source.sees.split())
            assert "found by the audit alone" in told
            assert BY_THE_AUDIT_ALONE[code.code] in told


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_what_was_mended_is_not_found(program):
    assert code_of(program) not in codes_found(program.with_name(f"{program.stem}_fixed.py"))
