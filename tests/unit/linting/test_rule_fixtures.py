"""Each rule on its fixtures: see `tests/lint_fixtures.py`. A new rule adds files there and nothing here."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lint_fixtures as fixtures
from torchcopy.linting.fix_options import FixOptions
from torchcopy.linting.rules import all_rules


@pytest.mark.parametrize("path", fixtures.MARKED, ids=fixtures.name_of)
def test_what_is_marked_is_found_and_nothing_else(path):
    found = fixtures.findings(path)
    assert sorted((each.line, each.code) for each in found.findings) == fixtures.marks(path)
    assert found.unused == ()


@pytest.mark.parametrize("path", fixtures.PAIRS, ids=fixtures.name_of)
def test_fixes(path, tmp_path):
    before = path.read_text(encoding="utf-8")
    after = path.with_name(path.name.replace(".in.py", ".out.py")).read_text(encoding="utf-8")
    unsafe = path.name.endswith(".unsafe.in.py")
    code = fixtures.code_of(path)
    changed = tmp_path / code / path.name
    changed.parent.mkdir()
    changed.write_text(before, encoding="utf-8")

    found = [each for each in fixtures.findings(path).findings if each.code == code]
    assert found
    assert all(each.note for each in found if each.fixable and not each.safe)
    if unsafe:
        fixtures.findings_at(changed, code, FixOptions("written"))
        assert changed.read_text(encoding="utf-8") == before  # not without the flag
    made = fixtures.findings_at(changed, code, FixOptions("written", unsafe)).fixed
    assert made is not None
    assert changed.read_text(encoding="utf-8") == after
    ast.parse(after)
    second = fixtures.findings_at(changed, code, FixOptions("written", unsafe))
    assert second.fixed is None


@pytest.mark.parametrize("path", fixtures.PAIRS, ids=fixtures.name_of)
def test_a_fixed_program_computes_the_same(path):
    before = path.read_text(encoding="utf-8")
    after = path.with_name(path.name.replace(".in.py", ".out.py")).read_text(encoding="utf-8")
    if fixtures.first_line(before, "not run"):
        assert fixtures.first_line(before, "not run") == fixtures.first_line(after, "not run")
        return
    first, second = fixtures.run(before, path.name), fixtures.run(after, path.name)
    changes = set(fixtures.first_line(before, "may change").split(", ")) - {""}
    assert not changes or path.name.endswith(".unsafe.in.py")
    for name in first.keys() | second.keys():
        if name in changes:
            assert first[name] != second[name], name
        elif name in first:  # a fix may import
            assert first[name] == second[name], name


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.CODE)
def test_each_rule_has_fixtures_on_both_sides(rule):
    bad, good = fixtures.items(rule.CODE)
    assert len(bad) >= 6, sorted(bad)
    assert len(good) >= 6, sorted(good)


def test_the_same_is_told_in_each_run():
    """Of several uses of one state always the same, whatever the order in which sets are gone through."""
    folder = Path(__file__).parents[2] / "fixtures" / "lint" / "TC101"
    command = [sys.executable, "-m", "torchcopy", "lint", str(folder), "--no-cache", "--output-format", "json"]
    runs = [
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=False)
        for seed in ("1", "2")
    ]
    assert json.loads(runs[0].stdout)
    assert runs[0].stdout == runs[1].stdout
