"""`torchcopy explain`: what it prints for codes, families and nothing, and what it refuses."""

import json
import subprocess
import sys

import pytest

from torchcopy.commands import run
from torchcopy.semantics.codes import CODES


@pytest.fixture
def cli(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments):
        status = run(["explain", *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def test_without_a_code_all_are_listed(cli):
    status, out, err = cli()
    assert (status, err) == (0, "")
    for code in CODES:
        assert out.count(code.code) == 1
        assert code.title in out
        assert code.wrong.splitlines()[-1] not in out


@pytest.mark.parametrize("name", ["TC101", "tc101", "stale-state-dict", " TC101 "])
def test_a_code_is_told_in_full(cli, name):
    status, out, err = cli(name)
    assert (status, err) == (0, "")
    code = CODES[0]
    assert out.startswith(f"TC101  {code.title}\n")
    for program in (code.wrong, code.right):
        assert "".join(f"  {line}".rstrip() + "\n" for line in program.splitlines()) in out
    assert code.threads[0] in out


def test_several_codes_are_told_one_after_the_other(cli):
    status, out, _ = cli("TC204,TC101", "TC204")
    assert status == 0
    first, second = out.index("TC101  A kept"), out.index("TC204  `torch.tensor(t)`")
    assert first < second
    assert out.count("Wrong\n") == 2


def test_a_prefix_lists_a_family(cli):
    status, out, _ = cli("TC1")
    assert status == 0
    assert "TC110" in out
    assert "TC201" not in out
    assert "Wrong\n" not in out
    assert "TC201" in cli("TC1", "TC201")[1]


def test_json(cli):
    status, out, err = cli("TC1", "TC301", "--json")
    assert (status, err) == (0, "")
    data = json.loads(out)
    assert [each["code"] for each in data] == [c.code for c in CODES if c.family in ("hazard", "idiom")]
    assert data[0] == json.loads(json.dumps(CODES[0].to_dict()))
    assert len(json.loads(cli("--json")[1])) == len(CODES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["TC999"], "no code begins with 'TC999': `torchcopy explain` lists them all"),
        (["TC206"], "no code begins with 'TC206': there are TC201, TC202"),
        (["TC101", "TC9"], "no code begins with 'TC9'"),
        (["101"], "did you mean 'TC101'"),
        (["T"], "no code begins with 'T'"),
        ([""], "no code begins with ''"),
        ([","], "no code begins with ''"),
        (["TC1x"], "no code begins with 'TC1x'"),
        (["TC101:"], "no code begins with 'TC101:': did you mean 'TC101'"),
        (["ＴＣ101"], "no code begins with 'ＴＣ101'"),
        (["\x1b[31m\nTC101"], r"no code begins with '\x1b[31m\nTC101'"),
        (["x" * 100_000], "no code begins with 'xxx"),
        (["--codes", "TC101"], "No such option"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_code_is_refused_in_one_line(cli, arguments, message):
    status, out, err = cli(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("torchcopy: error: ")
    assert err.count("\n") == 1
    assert len(err) < 200
    assert message in err


def test_help_has_an_example(cli):
    status, out, _ = cli("--help")
    assert status == 0
    assert "torchcopy explain TC101" in out.split("Example", 1)[1]
    for option in ("--json", "--debug", "--help"):
        assert option in out


def test_no_torch_is_loaded_to_explain():
    program = (
        "import sys; from torchcopy.commands import run; run(['explain', 'TC1']);"
        "sys.exit('torch' in sys.modules and 'torch was loaded')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
