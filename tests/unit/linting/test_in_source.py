"""What the pages say of each rule is what the rule does: their example is found, and its fix is the one shown."""

import pytest

import lint_fixtures as fixtures
from torchcopy.linting.fix_options import FixOptions
from torchcopy.linting.rules import all_rules
from torchcopy.semantics.codes import find_code


@pytest.mark.parametrize("code", [rule.CODE for rule in all_rules()])
def test_the_example_is_found_and_mended(code, tmp_path):
    before, after = find_code(code).in_source.programs()
    path = tmp_path / "example.py"
    path.write_text(before, encoding="utf-8")
    found = [each for each in fixtures.findings_at(path, code, FixOptions()).findings if each.code == code]
    assert found
    if any(each.fixable for each in found):
        fixtures.findings_at(path, code, FixOptions("written", unsafe=True))
        assert path.read_text(encoding="utf-8") == after
    path.write_text(after, encoding="utf-8")
    assert [each for each in fixtures.findings_at(path, code, FixOptions()).findings if each.code == code] == []
