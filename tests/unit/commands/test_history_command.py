"""`torchcopy history`: what is in a saved history, and what moved between two snapshots."""

import json
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

import torchcopy as tc
from torchcopy.commands import run


def make_history(steps=5, **options):
    """A history of a model whose second layer moves, and of its optimizer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history = tc.History(model=model, optimizer=optimizer, keep=3, keep_best={"val_loss": "min"}, **options)
    for step in range(steps):
        history.take(step=100 * step, val_loss=[0.9, 0.3, 0.5, 0.4, float("nan")][step % 5])
        with torch.no_grad():
            model[2].weight.mul_(1.5)
    return history


@pytest.fixture
def cli(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments):
        status = run(["history", *map(str, arguments)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture
def saved(cli, tmp_path):
    """`h`, a history of the snapshots 1, 2, 3, 4; `s`, its newest by itself."""
    history = make_history()
    history.save(tmp_path / "h")
    history[-1].save(tmp_path / "s")
    return history


def files(folder):
    """What is in a folder and below it, with the bytes."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- show ----------------------------------------------------------------------------------------------------


def test_show(cli, saved, tmp_path):
    before = files(tmp_path)
    status, out, err = cli("show", "h")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("h: 4 of 5 snapshots kept")
    assert "Parts: model, optimizer, rng." in lines
    rows = [line.split() for line in lines[4:8]]
    assert [row[:3] for row in rows] == [
        ["1", "100", "0.3"],
        ["2", "200", "0.5"],
        ["3", "300", "0.4"],
        ["4", "400", "nan"],
    ]
    assert [row[-1] for row in rows] == ["val_loss", "–", "–", "–"]
    assert max(map(len, lines)) <= 80
    assert files(tmp_path) == before


def test_show_json_has_what_was_taken_too(cli, saved):
    status, out, err = cli("show", "h", "--json")
    assert (status, err) == (0, "")
    data = json.loads(out)
    assert [each["number"] for each in data["snapshots"]] == [1, 2, 3, 4]
    assert [each["best"] for each in data["snapshots"]] == [["val_loss"], [], [], []]
    assert [(each["number"], each["kept"]) for each in data["taken"]] == [
        (0, False),
        *((k, True) for k in range(1, 5)),
    ]
    assert data["taken"][0]["labels"] == {"step": 0, "val_loss": 0.9}
    assert data["taken"][4]["labels"] == {"step": 400, "val_loss": "nan"}
    assert data["keep_best"] == {"val_loss": "min"}


@pytest.mark.parametrize("name", ["h.png", "h.svg"])
def test_show_with_a_plot(cli, saved, tmp_path, name):
    status, out, _ = cli("show", "h", "--plot", name, "--part", "model")
    assert status == 0
    assert "4 of 5 snapshots kept" in out
    start = b"\x89PNG" if name.endswith("png") else b"<?xml"
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_loaded_history_remembers_what_it_took(saved, tmp_path):
    loaded = tc.History.load(tmp_path / "h")
    assert repr(loaded.records) == repr(saved.records)
    loaded.records[0].labels["step"] = "changed"
    assert loaded.records[0].labels["step"] == 0


# --- compare -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "numbers", "l2"),
    [
        ("h:step=100", "h:step=200", (1, 2), 0.5),
        ("h:best=val_loss", "h:-1", (1, 4), 1.5**3 - 1),
        ("h:1", "s", (1, 4), 1.5**3 - 1),
        ("h:max=val_loss", "h:min=val_loss", (2, 1), 1 - 1 / 1.5),
    ],
)
def test_compare_names_two_snapshots_in_many_ways(cli, saved, a, b, numbers, l2):
    status, out, err = cli("compare", a, b, "--json")
    assert (status, err) == (0, "")
    data = json.loads(out)
    assert [data[side].split()[1] for side in "ab"] == [str(number) for number in numbers]
    assert data["tensors"][0]["name"] == "2.weight"
    assert data["tensors"][0]["relative"] == pytest.approx(l2, rel=1e-5)
    assert [each["relative"] for each in data["tensors"][1:]] == [0, 0, 0]


def test_the_table_is_that_of_the_live_objects(cli, saved, tmp_path):
    status, out, err = cli("compare", "h:1", "h:4")
    assert (status, err) == (0, "")
    said = str(tc.compare(saved[0], saved[-1])).splitlines()
    assert " ".join(out.split()).startswith(f"{said[0]} {said[1]}")
    there, here = (
        [line.split() for line in lines if line.startswith("2.weight")] for lines in (said, out.splitlines())
    )
    ((name, elements, relative, l2, largest, _cosine, changed),) = here
    assert [[name, elements, relative, l2, largest, changed]] == there


def test_compare_by_module_and_of_a_part(cli, saved):
    status, out, _ = cli("compare", "h:1", "h:4", "--by", "module", "--top", "1", "--part", "model")
    assert status == 0
    assert any(line.split()[:2] == ["2", "2"] for line in out.splitlines())
    assert "\x1b" not in out


def test_what_only_one_has_is_listed(cli, tmp_path):
    for name, layers in (("a", 1), ("b", 2)):
        model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(layers)))
        tc.History(model=model).take().save(tmp_path / name)
    status, out, _ = cli("compare", "a", "b")
    assert status == 0
    assert "1.weight: only in b: float32[2, 2] cpu" in out


def test_a_history_is_read_once(cli, saved, monkeypatch):
    read = []
    load = tc.History.load
    monkeypatch.setattr(tc.History, "load", lambda path: read.append(path) or load(path))
    assert cli("compare", "h:1", "h:2")[0] == 0
    assert len(read) == 1


def test_a_name_with_colons(cli, saved, tmp_path):
    (tmp_path / "h").rename(tmp_path / "a:b")
    status, out, err = cli("compare", "a:b:1", "a:b:-1", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["tensors"][0]["name"] == "2.weight"


# --- what goes wrong -----------------------------------------------------------------------------------------

BAD = [
    (["show", "none"], "there is nothing at"),
    (["show", "s"], "it is a snapshot"),
    (["show", "empty"], "no history"),
    (["show", "a-file"], "is a file"),
    (["show", "h", "--plot", "a.pdf"], "must end in .png or .svg"),
    (["show", "h", "--plot", "none/a.png"], "there is no folder"),
    (["show", "h", "--plot", "a.png", "--part", "modle"], "no part 'modle'"),
    (["show", "h", "--part", "model"], "give `--plot FILE` too"),
    (["show"], "Missing argument 'DIR'"),
    (["compare", "s"], "Missing argument 'B'"),
    (["compare", "h", "s"], "'h' is a history of 4 snapshots: say which, as in h:-1"),
    (["compare", "s:-1", "s"], "is one snapshot: leave out `:-1`"),
    (["compare", "none", "s"], "there is nothing at"),
    (["compare", "none:-1", "s"], "there is nothing at"),
    (["compare", "h:step=7", "s"], "no snapshot of 'h' has step=7: there are step=100"),
    (["compare", "h:best=loss", "s"], "has a number for 'loss'"),
    (["compare", "h:-9", "s"], "there is none at -9"),
    (["compare", "h:newest", "s"], "'newest' selects no snapshot"),
    (["compare", "h:1", "s", "--part", "modle"], "no part 'modle'"),
    (["compare", "h:1", "s", "--part", "optimizer"], "has no tensors to compare"),
    (["compare", "h:1", "s", "--top", "0"], "'--top'"),
    (["compare", "h:1", "s", "--by", "layer"], "'--by'"),
    (["compare", "x" * 5000, "s"], "File name too long"),
    (["show", "x" * 5000], "cannot read 'xxx"),
    (["shwo"], "No such command"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), BAD, ids=lambda value: " ".join(value)[:60] if list is type(value) else ""
)
def test_bad_input_is_one_line_with_status_2(cli, saved, tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a-file").write_text("x")
    before = files(tmp_path)
    status, out, err = cli(*arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("torchcopy: error: ")
    assert message in err
    assert files(tmp_path) == before


@pytest.mark.parametrize("victim", ["history.json", "snapshot.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
@pytest.mark.parametrize("arguments", [["show", "h"], ["compare", "h:1", "h:2"]], ids=lambda a: a[0])
def test_a_damaged_file_is_named(cli, saved, tmp_path, victim, damage, arguments):
    path = next((tmp_path / "h").rglob(victim))
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        content[-3] ^= 4
        path.write_bytes(content)
    status, out, err = cli(*arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    if victim != "history.json" or damage != "gone":
        assert victim in err


def test_help_has_an_example(cli):
    for command in ("show", "compare"):
        status, out, err = cli(command, "--help")
        assert (status, err) == (0, "")
        assert f"torchcopy history {command} runs/h" in " ".join(out.split())
        assert all(option in out for option in ("--json", "--debug", "--part"))


def test_a_bare_call_shows_the_commands(cli):
    status, out, err = cli()
    assert (status, err) == (2, "")
    assert "show" in out
    assert "compare" in out


def test_in_a_pipe_of_its_own(saved, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-m", "torchcopy", "history", "compare", "h:1", "h:-1"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert "2.weight" in done.stdout
