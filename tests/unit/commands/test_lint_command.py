"""`torchcopy lint`: what it prints, what it writes, what it refuses, its exit status."""

import io
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from torchcopy.commands import run
from torchcopy.reporters import lint as reporter
from torchcopy.semantics.codes import CODES

BAD = "def keep(t):\n    return t.clone().detach()\n"
GOOD = "def keep(t):\n    return t.detach().clone()\n"
NOTEBOOK = {
    "cells": [{"cell_type": "markdown", "source": []}, {"cell_type": "code", "source": ["x = t.clone().detach()"]}],
    "metadata": {},
    "nbformat": 4,
}


@pytest.fixture
def lint(tmp_path, monkeypatch, capsys):
    """Runs the command in a folder with a file of each sort; gives the status and what was printed."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("TORCHCOPY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments, **files):
        for stem, text in files.items():
            name = f"{stem}.ipynb" if stem == "notebook" else f"{stem}.py"
            (tmp_path / "work" / name).write_text(text, encoding="utf-8")
        status = run(["lint", *arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    call.folder = tmp_path / "work"
    return call


# --- what is found -------------------------------------------------------------------------------------------


def test_a_finding_is_told_with_its_line(lint):
    status, out, err = lint(bad=BAD, good=GOOD)
    assert (status, err) == (1, "")
    assert out == (
        "TC203 `clone().detach()` records a node for nothing: detach first\n"
        " --> bad.py:2:12\n"
        "  |\n"
        "2 | return t.clone().detach()\n"
        "  |        ^^^^^^^^^^^^^^^^^^\n"
        "  = fix: Detach first: `t.detach().clone()`.\n"
        "\n"
        "1 mistake in 1 file; 2 files read.\n"
        "--fix mends 1 of them; more: torchcopy explain TC203\n"
    )


def test_nothing_found(lint):
    assert lint(good=GOOD) == (0, "Nothing found; 1 file read.\n", "")


def test_no_file(lint):
    assert lint() == (0, "No file to check: there is none, or it is excluded.\n", "")


def test_what_was_skipped_and_which_comments_are_of_no_use_is_told(lint):
    status, out, _ = lint(old="print 'a'\n", good=GOOD + "# torchcopy: ignore[TC203]\n")
    assert status == 0
    assert out.splitlines() == [
        "old.py:1: is Python 2, it seems; skipped",
        "good.py:3:1: this comment silences nothing: # torchcopy: ignore[TC203]",
        "Nothing found; 1 file read, 1 skipped.",
    ]


def test_a_notebook_names_the_cell(lint):
    status, out, _ = lint(notebook=json.dumps(NOTEBOOK))
    assert status == 1
    assert " --> notebook.ipynb:cell 2:1:5\n" in out


def test_json_is_a_list_and_what_was_read_is_on_stderr(lint):
    status, out, err = lint("--output-format", "json", bad=BAD, old="print 'a'\n", notebook=json.dumps(NOTEBOOK))
    first, second = json.loads(out)
    assert status == 1
    assert {key: first[key] for key in ("code", "path", "line", "column", "fixable", "cell")} == {
        "code": "TC203",
        "path": "bad.py",
        "line": 2,
        "column": 12,
        "fixable": True,
        "cell": None,
    }
    assert (second["path"], second["cell"], second["line"]) == ("notebook.ipynb", 2, 1)
    assert first["message"].startswith("`clone().detach()`")
    assert "2 mistakes in 2 files; 2 files read, 1 skipped." in err


def test_json_of_nothing_is_an_empty_list(lint):
    status, out, err = lint("--output-format", "json", good=GOOD)
    assert (status, json.loads(out), err) == (0, [], "Nothing found; 1 file read.\n")


def test_annotations_of_github(lint):
    status, out, err = lint("--output-format=github", bad=BAD)
    assert status == 1
    assert out.startswith("::warning file=bad.py,line=2,endLine=2,col=12,endColumn=30,title=torchcopy TC203::")
    assert "1 file read" in err


def test_sarif(lint):
    status, out, err = lint("--output-format", "sarif", bad=BAD, notebook=json.dumps(NOTEBOOK, indent=1))
    (result, in_notebook) = json.loads(out)["runs"][0]["results"]
    assert status == 1
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "bad.py"
    assert place["region"] == {"startLine": 2, "startColumn": 12, "endColumn": 30}
    line = in_notebook["locations"][0]["physicalLocation"]["region"]["startLine"]
    assert "clone().detach()" in (lint.folder / "notebook.ipynb").read_text().splitlines()[line - 1]
    assert "(cell 2, line 1)" in in_notebook["message"]["text"]
    assert "2 files read" in err


def test_statistics(lint):
    status, out, _ = lint("--statistics", bad=BAD + BAD)
    assert status == 1
    assert out.splitlines()[:2] == [
        "count  code   fixable  what is wrong",
        "    2  TC203        2  `clone().detach()` records a node for nothing",
    ]
    _, out, _ = lint("--statistics", "--output-format", "json")
    assert json.loads(out) == [{"code": "TC203", "count": 2, "fixable": 2}]


def test_codes_are_chosen(lint):
    assert lint("--select", "TC1", bad=BAD)[0] == 0
    assert lint("--select", "TC1,TC203")[0] == 1
    assert lint("--ignore", "clone-then-detach")[0] == 0


# --- fixes ---------------------------------------------------------------------------------------------------


def test_fixes_are_written(lint):
    status, out, _ = lint("--fix", bad=BAD)
    assert (status, (lint.folder / "bad.py").read_text()) == (0, GOOD)
    assert out == "Fixed 1 mistake in 1 file: 1 TC203.\nNothing is left; 1 file read.\n"
    assert lint("--fix") == (0, "Nothing found; 1 file read.\n", "")


def test_a_diff_is_shown_and_nothing_is_written(lint):
    status, out, err = lint("--diff", bad=BAD)
    assert (status, (lint.folder / "bad.py").read_text()) == (1, BAD)
    assert out == (
        "--- a/bad.py\n"
        "+++ b/bad.py\n"
        "@@ -1,2 +1,2 @@\n"
        " def keep(t):\n"
        "-    return t.clone().detach()\n"
        "+    return t.detach().clone()\n"
    )
    assert err.splitlines()[0] == "Would fix 1 mistake in 1 file: 1 TC203."
    assert lint("--diff", "--fix")[1] == out
    assert (lint.folder / "bad.py").read_text() == BAD
    assert lint("--diff", bad=GOOD)[:2] == (0, "")


def test_with_a_diff_the_status_tells_whether_something_would_change(lint):
    unsafe = "best = model.state_dict()\nfor x in data:\n    optimizer.step()\nmodel.load_state_dict(best)\n"
    text = f"import torch\n\nmodel, optimizer = torch.nn.Linear(2, 2), torch.optim.SGD([])\n{unsafe}"
    assert lint(bad=text)[0] == 1
    status, out, err = lint("--diff")
    assert (status, out) == (0, "")
    assert "1 mistake" in err


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("plain.py", BAD, GOOD),
        ("mark.py", f"\ufeff{BAD}", f"\ufeff{GOOD}"),
        ("two words.py", BAD, GOOD),
        ("folder of mine/é 日本.py", BAD, GOOD),
        ('quoted "so" \\ and\tso.py', BAD, GOOD),
        ("../outside/one.py", BAD, GOOD),
        ("../out side/one.py", BAD, GOOD),
        ("crlf.py", BAD.replace("\n", "\r\n"), GOOD.replace("\n", "\r\n")),
        ("no end.py", BAD.rstrip(), GOOD.rstrip()),
    ],
)
def test_git_applies_the_diff(name, before, after, lint):
    path = lint.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(before.encode())
    lint(bad=BAD)
    _, out, err = lint("--diff", str(path), "bad.py")
    told = re.search(r"The diff is one of files in (.*): apply it there.", err)
    folder = Path(told[1]) if told else lint.folder
    assert (folder == lint.folder) == (".." not in name)
    done = subprocess.run(["git", "apply", "-"], input=out.encode(), cwd=folder, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert path.read_bytes() == after.encode()
    assert (lint.folder / "bad.py").read_text() == GOOD


def test_the_pattern_for_visual_studio_code_reads_what_is_printed(lint):
    page = (Path(__file__).parents[3] / "docs" / "lint.md").read_text(encoding="utf-8")
    tasks = json.loads(re.search(r"```json\n(.*?)```", page, re.DOTALL)[1])
    (task,) = tasks["tasks"]
    matcher = task["problemMatcher"]["pattern"]
    assert (task["type"], task["command"], task["args"][0]) == ("process", "torchcopy", "lint")

    _, out, _ = lint(*(each.replace("${file}", "bad.py") for each in task["args"][1:]), bad=BAD)
    found = re.match(matcher["regexp"], out.strip())
    told = {key: found[matcher[key]] for key in ("severity", "file", "line", "column", "code", "message")}
    assert told.pop("message") == "`clone().detach()` records a node for nothing: detach first"
    assert told == {"severity": "warning", "file": "bad.py", "line": "2", "column": "12", "code": "TC203"}


@pytest.mark.parametrize("page", [".pre-commit-hooks.yaml", "docs/lint.md"])
def test_hooks_name_files_that_the_command_takes(page, lint):
    text = (Path(__file__).parents[3] / page).read_text(encoding="utf-8")
    hooks = re.findall(r"^ +entry: torchcopy (lint.*)\n(?: +(?!files|entry).*\n)* +files: (.*)", text, re.MULTILINE)
    assert len(hooks) == text.count("entry: torchcopy lint")
    script = lint.folder / "script"  # `identify` calls it a Python file for its first line
    script.write_text(f"#!/usr/bin/env python\n{BAD}")
    lint(bad=BAD, notebook=json.dumps(NOTEBOOK))
    for entry, files in hooks:
        named = sorted(path.name for path in lint.folder.iterdir() if re.search(files, path.name))
        assert named == ["bad.py", "notebook.ipynb"]
        assert lint(*entry.split()[1:], *named)[0] == 1


def test_the_settings_of_the_page_are_accepted(lint):
    page = (Path(__file__).parents[3] / "docs" / "lint.md").read_text(encoding="utf-8")
    (lint.folder / "pyproject.toml").write_text(re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1])
    assert lint(bad=BAD)[0] == 1
    (lint.folder / "tests").mkdir()
    (lint.folder / "bad.py").rename(lint.folder / "tests" / "bad.py")
    assert lint()[:2] == (0, "Nothing found; 1 file read.\n")


# --- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothere.py"], "cannot open 'nothere.py': No such file or directory"),
        (["notes.txt"], "cannot check 'notes.txt': it is neither `.py` nor `.ipynb`"),
        ([""], "'' is no path"),
        (["--select", "TC9"], "`--select`: no code begins with 'TC9'"),
        (["--select", "TC103"], "no lint looks for TC103: `torchcopy audit` does"),
        (["--select", ""], "no code begins with ''"),
        (["--ignore", "nonsense"], "`--ignore`: no code begins with 'nonsense'"),
        (["--output-format", "xml"], "`--output-format xml`: there are text, json, github, sarif"),
        (["--unsafe-fixes"], "add `--fix` to write them or `--diff` to see them"),
        (["--diff", "--output-format", "json"], "`--diff` and `--output-format json` exclude each other"),
        (["--diff", "--statistics"], "`--statistics` and `--diff` exclude each other"),
        (["--statistics", "--output-format", "sarif"], "exclude each other"),
        (["--fixx"], "No such option: --fixx"),
        (["settings"], "pyproject.toml: [tool.torchcopy.lint] has no `selct`: did you mean `select`?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_one_clear_line(arguments, words, lint):
    (lint.folder / "notes.txt").write_text("x")
    (lint.folder / "settings").mkdir()
    (lint.folder / "settings" / "pyproject.toml").write_text('[tool.torchcopy.lint]\nselct = ["TC1"]\n')
    status, out, err = lint(*arguments, bad=BAD)
    assert (status, out) == (2, "")
    assert err.startswith("torchcopy: error: ")
    assert err.count("\n") == 1
    assert words in err
    assert (lint.folder / "bad.py").read_text() == BAD


def test_a_file_that_cannot_be_fixed_is_an_error(lint, monkeypatch):
    monkeypatch.setattr("os.access", lambda _, mode: mode != os.W_OK)
    status, out, _ = lint("--fix", bad=BAD)
    assert status == 2
    assert "bad.py: was not fixed: it is write-protected" in out.splitlines()


# --- how it looks --------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(lint, width, stream=None, **files):
    from torchcopy.linting.running import lint as check

    lint("--statistics", **files)
    stream = stream or io.StringIO()
    reporter.show(check(["."], cache=False), stream, width=width)
    return stream.getvalue()


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_fit_the_terminal(width, lint):
    long = "def f(tensors):\n\treturn [('é' * 3, tensor.clone().detach()) for tensor in tensors if '日本語'], "
    text = shown(
        lint, width, bad=f"{long}{'1, ' * 90}\n", wide=f"x = {'(' * 9}{'a' * 200}.clone().detach(){')' * 9}\n"
    )
    from torchcopy.reporters.clipped_lines import columns

    assert all(columns(line) <= width for line in text.splitlines()), text
    marked = [line for line in text.splitlines() if "^^^" in line]
    assert len(marked) == 2


def test_carets_stand_below_what_is_meant(lint):
    lines = shown(lint, 80, bad="if True:\n\tx = '日本', t.clone().detach(), 1\n").splitlines()
    at = next(at for at, line in enumerate(lines) if "日本" in line)
    assert lines[at].replace("日本", "....").index("t.clone") == lines[at + 1].index("^")
    assert lines[at + 1].count("^") == len("t.clone().detach()")


def test_colours_are_for_terminals_only(lint, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\033[1;33mTC203" in shown(lint, 80, Terminal(), bad=BAD)
    assert "\033" not in shown(lint, 80)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033" not in shown(lint, 80, Terminal())


def test_control_characters_of_a_source_reach_no_terminal(lint):
    text = shown(lint, 80, bad="x = '\x1b[31m\u202e', t.clone().detach()\n")
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_path_takes_one_line_whatever_is_in_it(lint):
    text = shown(lint, 40, **{"a\nb\x1b\tc-d e" + "f-" * 30: BAD + "# torchcopy: ignore[TC203]\n"})
    lines = text.splitlines()
    assert f" --> a␊b␛␉c-d e{'f-' * 30}.py:2:12" in lines
    assert f"  e{'f-' * 30}.py:3:1:" in lines


def test_of_a_very_long_line_only_what_is_near_is_looked_at(lint, monkeypatch):
    from torchcopy.reporters import clipped_lines

    looked_at = []
    monkeypatch.setattr(
        reporter,
        "without_tabs",
        lambda text, spans: looked_at.append(text) or clipped_lines.without_tabs(text, spans),
    )
    text = shown(lint, 80, bad=f"x = [{'1, ' * 30_000}t.clone().detach(), {'2, ' * 30_000}]\n")
    assert [len(text) < 2_000 for text in looked_at] == [True]
    shown_line, carets = text.splitlines()[3:5]
    assert shown_line.startswith("1 | …")
    assert shown_line.endswith(", t.clone().detach(), 2, 2, …")
    assert shown_line[carets.index("^") : carets.rindex("^") + 1] == "t.clone().detach()"


def test_every_code_of_the_linter_has_words_for_its_fix():
    assert all(code.fix for code in CODES if code.linted)
