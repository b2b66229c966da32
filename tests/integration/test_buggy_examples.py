"""The programs of `examples/buggy`: what each mistake costs is what they print, and the audit finds it in each."""

import contextlib
import dataclasses
import io
import re
import runpy
import sys
import warnings
from pathlib import Path

import pytest
import torch

from torchcopy.auditing.records import Report
from torchcopy.auditing.session import Audit

BUGGY = Path(__file__).parents[2] / "examples" / "buggy"
PROGRAMS = sorted(path for path in BUGGY.glob("tc*.py") if not path.stem.endswith("_fixed"))
AUDITED = [path for path in PROGRAMS if not path.stem.startswith("tc104")]
CODES = "TC101 TC102 TC103 TC104 TC105 TC106 TC107 TC108 TC109 TC110 TC201 TC202 TC203 TC204 TC205 TC207 TC208"
# What the last line of each program with a number tells: does the mistake make it smaller, and by which factor?
COSTS = {
    "tc101": ("accuracy with the best weights", 0.95),
    "tc102": ("accuracy", 0.8),
    "tc103": ("accuracy", 0.2),
    "tc105": ("kept alive", 1e3),
    "tc106": ("accuracy with the best weights", 0.95),
    "tc107": ("accuracy", 0.2),
    "tc108": ("accuracy of the copy on them", 0.98),
    "tc109": ("accuracy on the digits 0 to 4, afterwards", 0.5),
    "tc110": ("kept alive", 100),
    "tc201": ("copied", 1e3),
    "tc202": ("copied", 1.9),
    "tc203": ("nodes of the graph made for nothing", 100),
    "tc204": ("accuracy", 0.5),
    "tc205": ("converted", 50),
    "tc207": ("numbers waited for", 100),
    "tc208": ("allocated", 50),
}

pytestmark = pytest.mark.usefixtures("one_thread", "digits_data_beside_them")


@dataclasses.dataclass
class Run:
    printed: str
    report: Report

    def number(self, words):
        return float(re.search(rf"(?m)^{re.escape(words)}[^:\n]*: ([\d.]+)", self.printed)[1])


def code_of(path):
    return path.stem[:5].upper()


def fixed(path):
    return path.with_name(f"{path.stem}_fixed.py")


@pytest.fixture(scope="module")
def digits_data_beside_them():
    """The directory of a program comes first in `sys.path`, as if Python ran it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BUGGY))
        yield
    sys.modules.pop("digits_data", None)


@pytest.fixture(scope="module")
def audited():
    """Runs a program under the audit, each once."""
    runs = {}

    def run(path):
        if path not in runs:
            out = io.StringIO()
            quiet = contextlib.redirect_stdout(out), warnings.catch_warnings()
            with quiet[0], quiet[1], torch.random.fork_rng(devices=[]), Audit() as audit:
                variables = runpy.run_path(str(path), run_name="__main__")
            del variables  # as in a program of its own, what it has at its end is there until then
            runs[path] = Run(out.getvalue(), audit.report)
        return runs[path]

    return run


def test_each_code_has_a_program_and_its_twin():
    assert [code_of(path) for path in PROGRAMS] == CODES.split()
    assert all(fixed(path).is_file() for path in PROGRAMS)
    assert len(list(BUGGY.glob("tc*.py"))) == 2 * len(PROGRAMS)


@pytest.mark.parametrize("path", AUDITED, ids=code_of)
def test_the_mistake_costs_what_is_said(path, audited):
    words, factor = COSTS[path.stem[:5]]
    with_it, without = audited(path).number(words), audited(fixed(path)).number(words)
    if factor < 1:
        assert with_it <= factor * without
    else:
        assert with_it >= factor * max(without, 1e-3)


@pytest.mark.parametrize("path", AUDITED, ids=code_of)
def test_the_audit_finds_the_mistake_and_no_other(path, audited):
    findings = audited(path).report.findings
    kind = code_of(path)[:3]
    assert {f.code for f in findings if f.code.startswith((kind, "TC1"))} == {code_of(path)}
    named = [place.line for f in findings if f.code == code_of(path) for place in f.places]
    assert path in {Path(line.path).resolve() for line in named}


@pytest.mark.parametrize("path", AUDITED, ids=code_of)
def test_the_audit_finds_nothing_in_the_twin(path, audited):
    findings = audited(fixed(path)).report.findings
    assert [f for f in findings if f.code.startswith("TC1") or f.code == code_of(path)] == []


@pytest.mark.parametrize("name", ["tc104_read_too_early", "tc104_read_too_early_fixed"])
def test_the_program_for_a_gpu_says_so_without_one(name, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with Audit() as audit:
        runpy.run_path(str(BUGGY / f"{name}.py"), run_name="__main__")
    assert "needs a GPU" in capsys.readouterr().out
    assert audit.report.findings == ()
