import json
import sys

import pytest

from torchcopy.bench import tensors
from torchcopy.bench.records import BenchReport
from torchcopy.commands import run

QUICK = ("--size", "64", "--method", "clone,detach", "--max-seconds", "0.5")
# A comparison times alone what was doctored: another method may be slower on a busy machine, and is told then.
ALONE = ("--size", "64", "--method", "clone", "--max-seconds", "0.5")

MODELS = """
import torch
from torch import nn

def build():
    print("building")
    return nn.Linear(8, 8)

def fails():
    raise RuntimeError("no weights here")

def nothing():
    return None

instance = nn.Linear(2, 2)

def loud(t):
    print("copying")
    return t.clone()

def slow(t):
    total = t
    for _ in range(200):
        total = total + 0 * t
    return total
"""


@pytest.fixture
def cli(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "path", list(sys.path))

    def call(*arguments):
        status = run(["bench", *map(str, arguments)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture
def models(tmp_path):
    (tmp_path / "bench_command_models.py").write_text(MODELS)
    yield "bench_command_models"
    sys.modules.pop("bench_command_models", None)


def test_the_table(cli):
    status, out, err = cli(*QUICK)
    assert (status, err) == (0, "")
    assert "Copies of float32 tensors on cpu" in out
    assert "limit: warm copy_" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("option", [["--json", "-"], ["--json"]])
def test_json_on_stdout_and_nothing_else(cli, option):
    status, out, err = cli(*option, *QUICK)
    assert (status, err) == (0, "")
    assert BenchReport.from_dict(json.loads(out)).methods == ("clone", "detach")


def test_json_stays_clean_when_the_users_code_prints(cli, models):
    status, out, err = cli("--method", f"{models}:loud", "--size", 8, "--max-seconds", 0.3, "--json")
    assert status == 0
    assert json.loads(out)["methods"] == [f"{models}:loud"]
    assert "copying" in err


def test_all_files_at_once(cli, tmp_path):
    status, out, _ = cli(*QUICK, "--json", "a.json", "--plot", "a.svg", "--html", "a.html")
    assert status == 0
    assert "Copies of" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.json", "a.svg"]
    assert json.loads((tmp_path / "a.json").read_text())["schema"] == "torchcopy-bench"


def test_all_sources(cli):
    _, out, _ = cli("--source", "all", "--dtype", "int8", "--json", *QUICK)
    assert json.loads(out)["sources"] == ["no_grad", "transposed", "channels_last", "expanded", "slice"]


def test_a_model(cli, models):
    status, out, err = cli("--model", f"{models}:build", "--max-seconds", 0.5, "--json")
    assert status == 0
    assert json.loads(out)["subject"] == f"{models}:build"
    assert "building" in err


def doctored(path, factor):
    """The result in `path`, with the times of `clone` multiplied."""
    data = json.loads(path.read_text())
    for m in data["measurements"]:
        if m["method"] == "clone":
            for key in ("low_seconds", "median_seconds", "high_seconds"):
                m["timing"][key] *= factor
    path.write_text(json.dumps(data))


def test_slower_is_a_finding(cli, tmp_path):
    old = tmp_path / "old.json"
    assert cli(*ALONE, "--json", old)[0] == 0
    doctored(old, 1e-6)
    status, out, _ = cli(*ALONE, "--compare", old)
    assert status == 1
    assert "1 slower" in out


def test_faster_is_none(cli, tmp_path):
    old = tmp_path / "old.json"
    cli(*ALONE, "--json", old)
    doctored(old, 1e6)
    status, out, _ = cli(*ALONE, "--compare", old, "--json")
    assert status == 0
    verdicts = {change["method"]: change["verdict"] for change in json.loads(out)["comparison"]["changes"]}
    assert verdicts["clone"] == "faster"


BAD = [
    (["--method", "clne"], "did you mean 'clone'"),
    (["--size", "0"], "at least 1"),
    (["--size", "2^50"], "is free on cpu"),
    (["--size", "2^9..2^3"], "runs backwards"),
    (["--dtype", "float33"], "there is no dtype"),
    (["--device", "cuda:99"], "not at hand here"),
    (["--source", "flat"], "there is no source kind"),
    (["--source", "leaf", "--dtype", "int8"], "cannot require grad"),
    (["--max-seconds", "0"], "positive number"),
    (["--max-seconds", "soon"], "'--max-seconds'"),
    (["--plot", "a.pdf"], "must end in .png or .svg"),
    (["--plot", "none/a.png"], "there is no folder"),
    (["--html", "."], "is a folder"),
    (["--json", "a", "--html", "a"], "name the same file"),
    (["--compare", "none.json"], "cannot read"),
    (["--model", "nowhere"], "must read PACKAGE.MODULE:NAME"),
    (["--model", "no_such_module:f"], "importing 'no_such_module' failed"),
    (["--model", "MODELS:fails"], "the factory failed (RuntimeError: no weights here)"),
    (["--model", "MODELS:nothing"], "the factory returned NoneType"),
    (["--model", "MODELS:instance"], "is a module already"),
    (["--model", "MODELS:build", "--size", "3"], "leave one of them out"),
    (["--model", "MODELS:build", "--source", "leaf"], "leave one of them out"),
    (["--model", "MODELS:build", "--method", "clone"], "did you mean 'clone_dict'"),
    (["surplus"], "unexpected extra argument"),
    (["--nonsense"], "No such option"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), BAD, ids=lambda value: " ".join(value) if list is type(value) else ""
)
def test_bad_input_is_one_line_and_nothing_runs(cli, models, monkeypatch, tmp_path, arguments, message):
    monkeypatch.setattr("torchcopy.bench.tensors.run_cases", None)
    monkeypatch.setattr("torchcopy.bench.models.run_cases", None)
    before = {path.name for path in tmp_path.iterdir()} | {"__pycache__"}
    status, out, err = cli(*(argument.replace("MODELS", models) for argument in arguments))
    assert (status, out) == (2, "")
    line = [text for text in err.splitlines() if text != "building"]
    assert len(line) == 1
    assert line[0].startswith("torchcopy: error: ")
    assert message in line[0]
    assert {path.name for path in tmp_path.iterdir()} <= before


def test_a_result_of_another_dtype_is_refused_before_anything_runs(cli, monkeypatch, tmp_path):
    old = tmp_path / "old.json"
    cli(*QUICK, "--json", old)
    monkeypatch.setattr("torchcopy.bench.tensors.run_cases", None)
    status, out, err = cli(*QUICK, "--dtype", "int8", "--compare", old)
    assert (status, out) == (2, "")
    assert "measure with `--dtype float32`" in err


def test_ctrl_c_leaves_no_file(cli, monkeypatch, tmp_path):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(tensors, "run_cases", interrupted)
    stdout = sys.stdout
    status, out, err = cli(*QUICK, "--json", "a.json", "--plot", "a.png")
    assert (status, out, err) == (130, "", "torchcopy: interrupted\n")
    assert sys.stdout is stdout
    assert not list(tmp_path.iterdir())
