"""`torchcopy audit`: its options, what it refuses before anything runs, its outputs, its exit status."""

import json
import subprocess
import sys

import pytest

from torchcopy.auditing.records import Report
from torchcopy.commands import run

STALE = """
import sys
import torch

print("running", sys.argv[1:])
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best = model.state_dict()
for _ in range(5):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
model.load_state_dict(best)
if "--fail" in sys.argv:
    sys.exit(7)
"""


@pytest.fixture
def audit(tmp_path):
    """Runs the command in a process of its own, in a folder with a program."""
    (tmp_path / "train.py").write_text(STALE)

    def call(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "torchcopy", "audit", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return call


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to run"),
        (["-m"], "nothing to run"),
        (["missing.py"], "there is no file 'missing.py'"),
        (["."], "has no `__main__.py`"),
        (["text.py"], "'text.py' is not Python"),
        (["-m", "no_such_module_here"], "there is no module 'no_such_module_here'"),
        (["--select", "TC9", "train.py"], "no code begins with 'TC9'"),
        (["--ignore", "", "train.py"], "no code begins with"),
        (["--fail-on", "TC101,hazards", "train.py"], "no code begins with 'hazards'"),
        (["--fail-on", "", "train.py"], "`--fail-on` names no code"),
        (["--fail-on", " , ", "train.py"], "`--fail-on` names no code"),
        (["--fail-on", "TC401", "train.py"], "no code begins with 'TC401'"),
        (["--fail-on", "TC1"], "nothing to run"),
        (["--fail-on"], "requires an argument"),
        (["--fail-on", "TC101", "--select", "TC2", "train.py"], "would never fail: `--select` leaves it out"),
        (["--fail-on", "TC1", "--ignore", "TC", "train.py"], "would never fail: `--ignore` leaves it out"),
        (["--fail-on", "TC1,TC301", "train.py"], "`--fail-on TC301` would never fail: it is off by default"),
        (["--first-steps", "0", "train.py"], "--first-steps"),
        (["--first-steps", "many", "train.py"], "--first-steps"),
        (["--html", "no/such/folder/a.html", "train.py"], "there is no folder"),
        (["--html", "a.txt", "train.py"], "must end in .html"),
        (["--json", "a.html", "train.py"], "must end in .json"),
        (["--json", "a.json", "--sarif", "a.json", "train.py"], "name the same file"),
        (["--json", "a.json", "--sarif", "./a.json", "train.py"], "name the same file"),
        (["--json", "/proc/a.json", "train.py"], "cannot be written"),
        (["--json"], "requires an argument"),
        (["--json", "train.py"], "must end in .json"),
        (["--sarif", "a.html", "train.py"], "must end in .sarif or .json"),
        (["--sarif", "", "train.py"], "must end in .sarif or .json"),
        (["--sarif", "/dev/null/a.sarif", "train.py"], "there is no folder"),
        (["--sarif", "a.sarif"], "nothing to run"),
        (["--github"], "nothing to run"),
        (["--github=yes", "train.py"], "does not take a value"),
        (["--github", "-m", ""], "names no module"),
        (["--github", "-m", "../train"], "names no module"),
        (["--github", "-m", "os.path.nothing"], "'os' is not a package"),
        (["--htlm", "a.html", "train.py"], "No such option"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_is_refused_before_anything_runs(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("raise SystemError('this was run')")
    (tmp_path / "text.py").write_text("this is no Python")
    assert run(["audit", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("torchcopy: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.py", "train.py"]


@pytest.mark.parametrize("option", ["--html", "--json", "--sarif"])
@pytest.mark.parametrize(
    "rest",
    [
        [],
        ["missing.py"],
        ["-m", "no_such_module_here"],
        ["text.py"],
        ["--first-steps", "0", "train.py"],
        ["--fail-on", "TC9", "train.py"],
        ["--select", "TC9", "train.py"],
        ["--unknown", "train.py"],
    ],
    ids=" ".join,
)
def test_what_is_refused_leaves_an_earlier_report_alone(tmp_path, monkeypatch, capsys, option, rest):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("raise SystemError('this was run')")
    (tmp_path / "text.py").write_text("this is no Python")
    name = f"old.{option[2:]}"
    (tmp_path / name).write_text("an earlier report")
    assert run(["audit", option, name, *rest]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert (tmp_path / name).read_text() == "an earlier report"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "text.py", "train.py"])


@pytest.mark.parametrize("option", ["--html", "--json", "--sarif"])
def test_a_folder_is_no_file(tmp_path, monkeypatch, capsys, option):
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"a.{option[2:]}").mkdir()
    assert run(["audit", option, f"a.{option[2:]}", "train.py"]) == 2
    assert "is a folder: name a file in it" in capsys.readouterr().err


def test_options_after_the_script_belong_to_it(audit):
    done = audit("train.py", "--html", "x", "-m", "--", "--first-steps", "0", "--help")
    assert done.stdout == "running ['--html', 'x', '-m', '--', '--first-steps', '0', '--help']\n"
    assert done.returncode == 0
    assert "TC101" in done.stderr


def test_all_outputs_at_once_from_a_module(audit, tmp_path):
    names = ["--json", "a.json", "--html", "a.html", "--sarif", "a.sarif"]
    done = audit(*names, "--github", "-m", "train", "--epochs", "1")
    assert done.stdout == "running ['--epochs', '1']\n"
    assert done.returncode == 0
    assert "::error file=train.py,line=8" in done.stderr
    report = Report.load(tmp_path / "a.json")
    assert [finding.code for finding in report.hazards] == ["TC101"]
    assert report.program == "-m train --epochs 1"
    assert report.steps == report.audited_steps == 5
    assert "TC101" in (tmp_path / "a.html").read_text()
    results = json.loads((tmp_path / "a.sarif").read_text())["runs"][0]["results"]
    assert "TC101" in [result["ruleId"] for result in results]


@pytest.mark.parametrize(
    ("options", "arguments", "status"),
    [
        (["--fail-on", "TC1"], [], 1),
        (["--fail-on", "TC105"], [], 0),
        (["--fail-on", "TC1", "--ignore", "TC101"], [], 0),
        (["--fail-on", "TC1"], ["--fail"], 7),
        ([], ["--fail"], 7),
    ],
)
def test_the_exit_status_is_the_programs_or_1_where_it_had_none(audit, options, arguments, status):
    assert audit(*options, "--select", "TC101,TC105", "train.py", *arguments).returncode == status


def test_only_the_first_steps_are_audited(audit, tmp_path):
    assert audit("--first-steps", "2", "--json", "a.json", "train.py").returncode == 0
    report = Report.load(tmp_path / "a.json")
    assert report.audited_steps == 2
