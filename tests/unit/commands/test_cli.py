"""What all commands have in common: status, streams, one-line errors, help."""

import json
import shlex
import subprocess
import sys

import pytest

from torchcopy.commands import run

COMMANDS = ("table", "claims", "advise", "doctor", "bench")


@pytest.fixture
def cli(capsys):
    def call(*arguments):
        status = run(list(arguments))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(cli, command):
    status, out, err = cli(command, "--help")
    assert (status, err) == (0, "")
    assert f"torchcopy {command}" in out.split("Example", 1)[1]
    for option in ("--json", "--debug", "--help"):
        assert option in out


def test_bare_call_shows_the_commands(cli):
    status, out, err = cli()
    assert (status, err) == (2, "")
    assert all(command in out for command in COMMANDS)


def test_version(cli):
    from torchcopy import __version__

    assert cli("--version") == (0, f"torchcopy {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel"], "No such command"),
        (["table", "--metod", "x"], "No such option"),
        (["table", "--method", "x"], "there is no copy method 'x'"),
        (["table", "--method", ""], "there is no copy method ''"),
        (["table", "--method", "no_such_module_here:f"], "importing 'no_such_module_here' failed"),
        (["table", "--device", "cuda:99"], "device 'cuda:99' is not at hand here"),
        (["table", "--device", "x"], "there is no device 'x'"),
        (["table", "--dtype", "float33"], "there is no dtype 'float33'"),
        (["table", "--json", "--markdown"], "exclude each other"),
        (["advise", "--graph", "cut"], "`graph` must be one of"),
        (["advise", "--size", "many"], "many"),
        (["advise", "--memory", "share", "--dtype", "float16"], "cannot be had together"),
        (["doctor", "surplus"], "unexpected extra argument"),
    ],
)
def test_errors_are_one_clear_line_and_status_2(cli, arguments, message):
    status, out, err = cli(*arguments)
    assert status == 2
    assert out == ""
    assert err.startswith("torchcopy: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert "Traceback" not in err


def test_debug_shows_the_traceback():
    from torchcopy import InputError

    with pytest.raises(InputError, match="there is no copy method 'x'"):
        run(["table", "--method", "x", "--debug"])


def test_ctrl_c_ends_cleanly(cli, monkeypatch):
    from torchcopy.semantics import machine

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(machine, "diagnose", interrupt)
    assert cli("doctor") == (130, "", "torchcopy: interrupted\n")


def test_table_json_is_what_the_contract_says(cli):
    status, out, err = cli("table", "--json")
    assert (status, err) == (0, "")
    rows = json.loads(out)
    assert len(rows) >= 23
    for row in rows:
        assert {"method", "code", "requires_grad", "graph", "shares_memory", "warnings", "error"} <= set(row)
        assert isinstance(row["warnings"], list)
        assert row["source"] == "non_leaf"
        for kind in ("leaf", "parameter", "no_grad", "transposed", "channels_last", "expanded", "slice"):
            assert row[kind]["source"] == kind
            assert "shares_memory" in row[kind]
    by_name = {row["method"]: row for row in rows}
    assert by_name["deepcopy"]["error"].startswith("RuntimeError: Only Tensors created explicitly")
    assert by_name["deepcopy"]["requires_grad"] is None
    assert by_name["clone"]["graph"] is True
    assert by_name["tensor"]["warnings"]


def test_table_of_chosen_methods(cli):
    status, out, _ = cli("table", "--json", "--method", "clone,detach", "--method", "data", "--dtype", "int64")
    assert status == 0
    rows = json.loads(out)
    assert [row["method"] for row in rows] == ["clone", "detach", "data"]
    assert rows[0]["source"] == "no_grad"


def test_doctor_json(cli):
    status, out, err = cli("doctor", "--json")
    assert (status, err) == (0, "")
    data = json.loads(out)
    assert data["machine"]["torch"].startswith("2.")
    assert {path["name"] for path in data["fast_paths"]} >= {"torch._lazy_clone", "torch._foreach_copy_"}


def test_advise_json(cli):
    status, out, err = cli("advise", "--graph", "keep", "--size", "2^6", "--json")
    assert (status, err) == (0, "")
    data = json.loads(out)
    assert data["expression"] == "t.clone()"
    assert data["needs"]["numel"] == 64


def test_real_process_has_nothing_but_json_on_stdout():
    done = subprocess.run(
        [sys.executable, "-m", "torchcopy", "table", "--json", "--method", "tensor,asarray"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [row["method"] for row in json.loads(done.stdout)] == ["tensor", "asarray"]
    assert done.stderr == ""


def test_a_closed_pipe_is_no_error():
    command = f"{shlex.quote(sys.executable)} -m torchcopy table --json | head -c 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[", "")


@pytest.mark.parametrize("no_color", [False, True])
def test_colours_respect_no_color(monkeypatch, no_color):
    import io

    from rich.console import Console

    from torchcopy.reporters import table
    from torchcopy.semantics.probe import truth_table

    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    monkeypatch.setattr(
        table, "console", lambda: Console(file=stream, force_terminal=True, color_system="standard", width=80)
    )
    table.show(truth_table(["deepcopy", "clone"]))
    assert ("\x1b[31m" in stream.getvalue()) is not no_color


def test_advise_asks_in_a_terminal(monkeypatch):
    import io

    from torchcopy.reporters import advise

    answers = iter(["y", "n", "lazy", "n", "2^8"])
    monkeypatch.setattr("builtins.input", lambda *_: next(answers))
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert advise.ask({"numel": 5}) == {
        "numel": 256, "nested": True, "graph": "detach", "memory": "lazy", "hot_loop": False,
    }  # fmt: skip
