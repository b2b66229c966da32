"""Notebooks: cells are checked as one source, and fixes change the strings that they are in and nothing else."""

import json

import pytest
from lint_files import fix, notebook, run

from torchcopy.linting.findings import Edit
from torchcopy.linting.notebooks.cells import as_python
from torchcopy.linting.notebooks.notebook import Notebook

BAD = "x = t.clone().detach()\n"
GOOD = "x = t.detach().clone()\n"


def sources(text):
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"]]


def make(tmp_path, text):
    path = tmp_path / "one.ipynb"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_finding_names_the_cell_and_its_line(tmp_path):
    path = make(tmp_path, notebook("import torch\n", f"\n{BAD}"))
    (found,) = run(path).findings
    assert (found.cell, found.line, found.column, found.text) == (2, 2, 5, BAD.strip())
    assert path.read_text().splitlines()[found.file_line - 1].strip() == json.dumps(BAD)


def test_each_finding_has_the_line_of_the_file_where_it_stands(tmp_path):
    lines = [f"%time x{number} = t.clone().detach()\n" for number in range(30)]
    cells = ["".join(lines[:10]), "import torch\n", "\n" + "".join(lines[10:20]), ["".join(lines[20:])]]
    path = make(tmp_path, notebook(*cells))
    in_file = path.read_text().splitlines()
    found = run(path).findings
    assert [each.text for each in found] == [line.rstrip("\n") for line in lines]
    assert [each.cell for each in found] == [1] * 10 + [3] * 10 + [4] * 10
    assert all(json.dumps(each.text)[1:-1] in in_file[each.file_line - 1] for each in found)
    assert len({each.file_line for each in found}) == 21  # all of the last cell are on one line


@pytest.mark.parametrize(
    "cell",
    [
        f"%matplotlib inline\n{BAD}",
        f"!pip install torch\n{BAD}",
        f"!pip install \\\n  torch \\\n  numpy\n{BAD}",
        f"files = !ls\n{BAD}",
        f"a, b = %sx ls\n{BAD}",
        f"torch.clone?\n?torch\n{BAD}",
        f"if True:\n    !ls\n    {BAD}",
        f"%%time\n{BAD}",
        f"\n%%capture out\n{BAD}",
        f"%time y = 1\n{BAD}",
        f"text = '''\n!no magic\n%nor here\n'''\nshare = (1\n  % 2)\n{BAD}",
        f"await something()\n{BAD}",
        f"plt.plot(x);\n{BAD}",
    ],
)
def test_ipython_syntax_breaks_no_cell(cell, tmp_path):
    path = make(tmp_path, notebook("t = 1\n", cell))
    report = run(path)
    assert [(each.code, each.text.strip()) for each in report.findings] == [("TC203", BAD.strip())]
    assert report.skipped == ()
    fix(path)
    assert sources(path.read_text()) == ["t = 1\n", cell.replace(BAD, GOOD)]


def test_a_timed_line_is_checked_and_fixed(tmp_path):
    path = make(tmp_path, notebook(f"%time {BAD}!ls\n"))
    (found,) = run(path).findings
    assert found.column == 11
    fix(path)
    assert sources(path.read_text()) == [f"%time {GOOD}!ls\n"]


@pytest.mark.parametrize(
    "cell", ["%%bash\nls -l | x.clone().detach()\n", "%%html\n<b>\n", "%%writefile a.py\n" + BAD]
)
def test_cells_in_another_language_are_left_out(cell, tmp_path):
    report = run(make(tmp_path, notebook(cell)))
    assert (report.findings, report.skipped, report.files_read) == ((), (), 1)


def test_a_broken_cell_is_told_and_the_others_are_checked(tmp_path):
    report = run(make(tmp_path, notebook("print 'a'\n", BAD, "def f(:\n")))
    assert [(each.cell, each.reason) for each in report.skipped] == [
        (1, "is Python 2, it seems"),
        (3, "cannot be parsed: invalid syntax"),
    ]
    assert [each.cell for each in report.findings] == [2]
    assert report.files_read == 1


@pytest.mark.parametrize(
    "text",
    [
        notebook("# é\n", BAD),
        notebook("# é\n", BAD, indent=None),
        notebook("# é\n", BAD, indent=4, ensure_ascii=False),
        notebook(["# é\n", "# 😀", "\n", BAD]),
        notebook(["# \\u003c one string\n" + BAD]),
        notebook(BAD).replace('"x = ', '"\\u0078 = '),
        notebook("é = 1; " + BAD, "# 😀\n"),
        "\ufeff" + notebook(BAD),
        notebook(BAD).replace("\n", "\r\n"),
    ],
    ids=["ascii", "one_line", "utf8", "chunks", "escape", "escaped_letter", "same_line", "mark", "crlf"],
)
def test_a_fix_changes_nothing_else_in_the_file(text, tmp_path):
    path = make(tmp_path, text)
    fix(path)
    expected = text.replace("t.clone().detach()\\n", "t.detach().clone()\\n")
    output = '"text": [' if '"text": [' in text else ""
    written = path.read_bytes().decode()
    assert written.count("t.detach().clone()") == 1
    assert len(written) == len(text)
    if output:  # what a cell has printed stays
        assert written.count("t.clone().detach()") == text.count("t.clone().detach()") - 1
    changed = [at for at, (one, other) in enumerate(zip(text, written, strict=True)) if one != other]
    assert text[min(changed) : max(changed) + 1] == "clone().detach"
    assert expected.count("\n") == written.count("\n")


def test_a_fix_over_several_lines_writes_the_strings_anew():
    text = notebook("a = 1\nb = (2 +\n  3)\nc = 4\n", "d = 5")
    opened = Notebook(text)
    start = opened.text.index("b = ")
    new = opened.apply([Edit(start, opened.text.index("c = "), "import copy\n\nb = 5\n")])
    assert json.loads(new)["cells"][0]["source"] == ["a = 1\n", "import copy\n", "\n", "b = 5\n", "c = 4\n"]
    assert json.loads(new)["cells"][1]["source"] == ["d = 5"]
    assert len(new.splitlines()) == len(text.splitlines()) + 1


def test_a_fix_does_not_reach_from_cell_to_cell_or_into_magics():
    opened = Notebook(notebook("%time x = 1\n!ls\n", "y = 2\n"))
    end = opened.text.index("y = 2")
    assert not opened.can_apply([Edit(0, 3, "z")])
    assert not opened.can_apply([Edit(end - 3, end + 1, "z")])
    assert opened.can_apply([Edit(end, end + 1, "z")])
    with pytest.raises(ValueError, match="in no cell"):
        opened.apply([Edit(0, 3, "z")])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("{", "is no notebook"),
        ("[1]", "is no notebook: it is no JSON object"),
        ("{}", "is no notebook"),
        ('{"cells": 3}', "is no notebook"),
        ('{"worksheets": []}', "is a notebook of an old format: save it anew"),
        (notebook(BAD, language="R"), "is a notebook in R"),
        ('{"cells": [' + "[" * 100_000, "is nested too deeply"),
        (b'{"cells": ["\xe9"]}', "is not UTF-8"),
        (b"{\0}", "holds a null byte"),
    ],
)
def test_what_is_no_notebook_of_python_is_skipped(text, reason, tmp_path):
    report = run(make(tmp_path, text))
    (skipped,) = report.skipped
    assert skipped.reason.startswith(reason)
    assert (report.files_read, report.files_skipped) == (0, 1)


@pytest.mark.parametrize(
    "cells", ['[3, "a", null]', '[{"cell_type": 3, "source": 4}]', '[{"cell_type": "code"}]', "[]"]
)
def test_odd_cells_are_no_cells(cells, tmp_path):
    report = run(make(tmp_path, f'{{"cells": {cells}, "metadata": 3}}'))
    assert (report.findings, report.skipped, report.files_read) == ((), (), 1)


def test_placeholders_are_as_long_as_what_they_stand_for():
    cell = "%time f()\n  \nx = !ls\n!a \\\n b\nfoo?\n%%no\n"
    python = as_python(cell)
    assert len(python) == len(cell)
    assert [len(line) for line in python.split("\n")] == [len(line) for line in cell.split("\n")]
