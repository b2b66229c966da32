"""Comments silence findings on their lines; those of no use are told; those of other tools are none of ours."""

import pytest
from lint_files import places, run, write

from torchcopy.semantics.codes.comments import find_comments

CALL = "x = t.clone().detach()"


def unused(report):
    return [(each.line, each.text) for each in report.unused]


def reasons(report):
    return [each.reason for each in report.unused]


@pytest.mark.parametrize(
    "comment",
    [
        "# torchcopy: ignore",
        "# torchcopy: ignore[TC203]",
        "# torchcopy: ignore[TC2]",
        "#torchcopy:ignore[TC101, TC203]",
        "# noqa: TC203",
        "# noqa:E501,TC203",
        "# NOQA: TC2",
        "# noqa: E501, TC203 and why",
        "# noqa",
        "# because # torchcopy: ignore[TC203]",
        "# torchcopy: ignore[tc203]",
        "# torchcopy: ignore [TC101 TC203, ]",
        "# torchcopy: ignore, as in the paper",
    ],
)
def test_a_comment_silences(comment, tmp_path):
    report = run(write(tmp_path, one=f"{CALL}  {comment}\n{CALL}\n"))
    assert places(report) == [(2, "TC203")]


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: E501",
        "# torchcopy: ignore[TC101]",
        "# torchcopy: ignore[tc101]",
        "# noqa: TC101",
        "# torchcopy ignore",
        "# torchcopy: ignored in the paper",
        "# torchcopy: ignore-me",
        "# type: ignore",
    ],
)
def test_a_comment_for_something_else_silences_nothing(comment, tmp_path):
    assert places(run(write(tmp_path, one=f"{CALL}  {comment}\n"))) == [(1, "TC203")]


@pytest.mark.parametrize(
    "bracket",
    ["[TC203", "[TC203)", "[]", "[ ]", "[TC203;]", "[clone-then-detach]", "[TC203 # TC101]", "[[TC203]]", "[203]"],
)
def test_a_comment_that_cannot_be_read_silences_nothing_and_is_told(bracket, tmp_path):
    report = run(write(tmp_path, one=f"{CALL}  # torchcopy: ignore{bracket}\n"))
    assert places(report) == [(1, "TC203")]
    assert reasons(report) == ["this comment is not of the form `ignore[TC101]` and silences nothing"]


def test_a_comment_in_a_string_is_none(tmp_path):
    report = run(write(tmp_path, one=f"y = '# torchcopy: ignore'; {CALL}\n'''\n# torchcopy: ignore\n'''\n"))
    assert (places(report), report.unused) == ([(1, "TC203")], ())


def test_a_comment_on_any_line_of_the_finding_silences_it(tmp_path):
    report = run(write(tmp_path, one="x = (t\n  .clone()  # torchcopy: ignore[TC203]\n  .detach()\n)\n"))
    assert (report.findings, report.unused) == ((), ())


@pytest.mark.parametrize(
    ("comment", "told"),
    [
        ("# torchcopy: ignore", True),
        ("# torchcopy: ignore[TC101]", True),
        ("# torchcopy: ignore[TC9]", True),
        ("# torchcopy: ignore[TC999]", True),
        ("# torchcopy: ignore[TC103]", False),  # an audit looks for it
        ("# torchcopy: ignore[TC301]", False),  # is off
        ("# noqa: TC203", True),
        ("# noqa: E501,TC203", True),
        ("# noqa: TC001", False),  # another plugin's
        ("# noqa: TC999", False),
        ("# noqa: TC001,TC203", True),
        ("# noqa", False),
        ("# noqa: E501", False),
    ],
)
def test_a_comment_of_no_use_is_told(comment, told, tmp_path):
    report = run(write(tmp_path, one=f"y = 1  {comment}\n"))
    assert unused(report) == ([(1, comment)] if told else [])


@pytest.mark.parametrize(
    ("comment", "told"),
    [
        ("# torchcopy: ignore[TC203,TC101]", ["TC101 in this comment silences nothing"]),
        ("# noqa: TC203, TC101, TC001", ["TC101 in this comment silences nothing"]),
        ("# torchcopy: ignore[TC203,TC999]", ["no code begins with TC999"]),
        (
            "# torchcopy: ignore[TC203,TC7,TC110]",
            ["no code begins with TC7; TC110 in this comment silences nothing"],
        ),
        ("# torchcopy: ignore[TC2,TC203]", []),
        ("# torchcopy: ignore[TC203,TC103]", []),  # an audit looks for it
    ],
)
def test_the_part_of_a_comment_that_is_of_no_use_is_told(comment, told, tmp_path):
    report = run(write(tmp_path, one=f"{CALL}  {comment}\n"))
    assert (places(report), reasons(report)) == ([], told)


def test_nothing_is_said_of_comments_for_codes_that_were_not_looked_for(tmp_path):
    write(tmp_path, one="y = 1  # torchcopy: ignore[TC101]\nz = 1  # torchcopy: ignore\n")
    assert unused(run(tmp_path, select=["TC203"])) == []
    assert unused(run(tmp_path, select=["TC101"])) == [(1, "# torchcopy: ignore[TC101]")]


def test_two_comments_on_one_line_count_for_themselves(tmp_path):
    report = run(write(tmp_path, one=f"{CALL}  # noqa: TC101 # torchcopy: ignore[TC203]\n"))
    assert (report.findings, unused(report)) == ((), [(1, "# noqa: TC101")])


MOVED = "import torch\n\ndef keep(t: torch.Tensor, d):\n    return t.clone().detach().to(d)"


@pytest.mark.parametrize(
    ("options", "comment", "expected"),
    [
        ({}, "", ["TC202"]),  # its fix mends both
        ({"ignore": ["TC202"]}, "", ["TC203"]),
        ({}, "  # torchcopy: ignore[TC202]", ["TC203"]),
        ({}, "  # torchcopy: ignore[TC203]", ["TC202"]),
        ({}, "  # torchcopy: ignore", []),
    ],
)
def test_two_codes_for_the_same_calls_are_one_finding(options, comment, expected, tmp_path):
    report = run(write(tmp_path, one=f"{MOVED}{comment}\n"), **options)
    assert [finding.code for finding in report.findings] == expected
    assert report.unused == ()


def test_the_audit_reads_the_same_codes_and_is_silenced_by_nothing_malformed():
    ignores = ("ignore[tc101]", "ignore[TC101", "ignore", "ignored")
    comments = find_comments("".join(f"a  # torchcopy: {each}\n" for each in ignores))
    assert [(each.line, each.codes, each.silences("TC101")) for each in comments] == [
        (1, ("TC101",), True),
        (2, (), False),
        (3, (), True),
    ]


STALE = """\
import torch


def train(model, optimizer, batches):
    best = None
    for batch in batches:
        model(batch).mean().backward()
        optimizer.step()
        best = best or model.state_dict()
    model.load_state_dict(best){comment}
"""


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("  # torchcopy: ignore", []),
        ("  # torchcopy: ignore[TC101]", []),
        ("  # noqa: TC101", []),
        ("  # noqa", [9]),
        ("  # noqa: best is defined here", [9]),
        ("  # noqa: E501", [9]),
    ],
)
def test_a_bare_noqa_on_another_line_of_a_finding_is_for_something_else(comment, left, tmp_path):
    report = run(write(tmp_path, one=STALE.format(comment=comment)))
    assert [(each.code, each.line) for each in report.findings] == [("TC101", line) for line in left]
