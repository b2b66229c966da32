"""Small programs with a mistake, and near-twins without it: the audit tells them apart, and names the lines.

A program lies in the directory of its code. The lines that a finding has to name carry a comment such as
`# TC101: taken`; a line that it may name, and need not, `# TC101: written?`. What ends in `_twin` has no mistake.
A new program is a new file.
"""

import re
import runpy
import warnings
from collections import defaultdict
from pathlib import Path

import pytest
import torch

from torchcopy.auditing.session import Audit

PROGRAMS = Path(__file__).parent / "audit_programs"
MARK = re.compile(r"# (TC\d{3}): ([a-z, ?]+)")
ALL = sorted(path for path in PROGRAMS.glob("TC*/*.py"))
TWINS = [path for path in ALL if path.stem.endswith("_twin")]
FAULTY = [path for path in ALL if path not in TWINS]
FEWEST = {"1": 5, "2": 3}  # of each kind, for hazards and for waste

pytestmark = pytest.mark.usefixtures("one_thread")


def name_of(path):
    return f"{path.parent.name}-{path.stem}"


def marks(path):
    """The lines that a finding has to name, and those that it may name, by code."""
    required, allowed = defaultdict(set), defaultdict(set)
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for code, roles in MARK.findall(text):
            for role in roles.split(","):
                allowed[code].add(number)
                if not role.strip().endswith("?"):
                    required[code].add(number)
    return required, allowed


def audited(path):
    """The findings of a program, and the error that ended it; its random numbers are its own."""
    error = variables = None
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of some of the mistakes as well
        with Audit() as audit:
            try:
                variables = runpy.run_path(str(path), run_name="__main__")
            except RuntimeError as raised:
                error = raised
        del variables  # as in a program of its own, what it has at its end is there until then
    return audit.report.findings, error


def lines_of(findings, path):
    """The lines that the findings of each code name, all of them in this file."""
    found = defaultdict(set)
    for finding in findings:
        for place in finding.places:
            assert Path(place.line.path).resolve() == path, f"{finding.code} names {place.line}"
            found[finding.code].add(place.line.line)
    return found


@pytest.mark.parametrize("path", FAULTY, ids=name_of)
def test_the_mistake_is_found_where_it_is(path):
    required, allowed = marks(path)
    findings, error = audited(path)
    assert (error is not None) == (path.parent.name == "TC103"), error
    if error is not None:
        assert "modified by an inplace operation" in str(error)
    found = lines_of(findings, path)
    hazards_and_own = {code for code in found if code.startswith("TC1") or code == path.parent.name}
    assert required.keys() <= hazards_and_own <= allowed.keys()
    for code in hazards_and_own:
        assert required[code] <= found[code] <= allowed[code], code
    for finding in findings:
        if finding.code == path.parent.name:
            assert finding.count > 0
            assert finding.message
            assert finding.fix


@pytest.mark.parametrize("path", TWINS, ids=name_of)
def test_the_twin_has_no_mistake(path):
    findings, error = audited(path)
    assert error is None
    codes = ("TC1", "TC2") if path.parent.name.startswith("TC2") else ("TC1",)
    assert [f for f in findings if f.code.startswith(codes)] == []


@pytest.mark.parametrize("code", sorted({path.parent.name for path in ALL}))
def test_there_are_enough_of_both(code):
    for kind in (FAULTY, TWINS):
        assert sum(path.parent.name == code for path in kind) >= FEWEST[code[2]]


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_the_marks_fit_the_program(path):
    required, _ = marks(path)
    if path in FAULTY:
        assert path.parent.name in required
    else:
        assert "# TC" not in path.read_text(encoding="utf-8")
