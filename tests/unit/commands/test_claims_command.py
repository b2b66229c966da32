"""`torchcopy claims`: filters, formats, streams and one-line errors."""

import json

import pytest

from torchcopy.commands import run

WRONG = "deepcopy-vs-clone/clone-shares-memory"
RIGHT = "tensor-copy/clone-memory"


@pytest.fixture
def cli(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments):
        status = run(["claims", *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def test_json_is_a_list_of_claims(cli):
    status, out, err = cli("--id", f"{WRONG},{RIGHT}", "--json")
    assert (status, err) == (0, "")
    wrong, right = json.loads(out)
    for claim in (wrong, right):
        assert {"id", "article", "claim", "verdict", "evidence"} <= set(claim)
        assert all(isinstance(claim[key], str) and claim[key] for key in ("id", "article", "claim", "evidence"))
    assert (wrong["id"], wrong["verdict"], wrong["article"]) == (WRONG, "does not hold", "deepcopy-vs-clone")
    assert (right["id"], right["verdict"], right["reproduction"]) == (RIGHT, "holds", None)
    assert 0 < len(wrong["reproduction"].splitlines()) <= 5
    assert "same memory: False" in wrong["reproduction_output"]


def test_a_ratio_in_json_has_its_spread(cli):
    status, out, _ = cli("--id", "copying-methods/detach-first-faster-outside", "--json")
    assert status == 0
    (claim,) = json.loads(out)
    assert claim["timing"] is True
    assert len(claim["ratios"]) == 3
    for ratio in claim["ratios"]:
        assert {"call", "base", "source", "median", "low", "high", "rounds"} == set(ratio)
        assert ratio["low"] <= ratio["median"] <= ratio["high"]


def test_verdict_filters_what_is_shown(cli):
    both = ("--id", WRONG, "--id", RIGHT)
    for verdict in ("does-not-hold", "does not hold"):
        status, out, _ = cli(*both, "--json", "--verdict", verdict)
        assert (status, [claim["id"] for claim in json.loads(out)]) == (0, [WRONG])
    assert json.loads(cli(*both, "--json", "--verdict", "depends")[1]) == []
    assert len(json.loads(cli(*both, "--json", "--verdict", "holds,does-not-hold")[1])) == 2


def test_article_with_a_claim_of_another_is_refused(cli):
    status, out, err = cli("--article", "tensor-copy", "--id", WRONG)
    assert (status, out) == (2, "")
    assert "ids begin with their article" in err


def test_terminal(cli):
    status, out, err = cli("--id", WRONG)
    assert (status, err) == (0, "")
    assert "✗ does not hold  A clone shares" in out
    assert "│ b = a.clone()" in out


def test_markdown(cli):
    status, out, err = cli("--id", f"{WRONG},{RIGHT}", "--markdown")
    assert (status, err) == (0, "")
    assert out.startswith("# What the articles say\n")
    assert "```python\nimport torch\n" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--id", "nothing"], "there is no claim 'nothing': `torchcopy claims --json` lists them all"),
        (["--article", "deepcopy"], "there is no article 'deepcopy': did you mean 'deepcopy-vs-clone'?"),
        (["--verdict", "wrong"], "there is no verdict 'wrong': use `holds`, `does-not-hold` or `depends`"),
        (["--json", "--markdown"], "`--json` and `--markdown` exclude each other: choose one"),
    ],
    ids=["id", "article", "verdict", "formats"],
)
def test_what_cannot_be_is_refused_in_one_line(cli, arguments, message):
    status, out, err = cli(*arguments)
    assert (status, out) == (2, "")
    assert err == f"torchcopy: error: {message}\n"


def test_help_names_the_options(cli):
    status, out, _ = cli("--help")
    assert status == 0
    for option in ("--id", "--article", "--verdict", "--json", "--markdown", "--debug"):
        assert option in out
