"""An audit in the terminal: no line is broken, and carets stand below what they mean, in any width."""

import dataclasses
import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from audit_reports import hazard, report, source_line
from torchcopy.auditing.records import Finding, Place, SourceLine
from torchcopy.reporters.audit import finding_as_text, show
from torchcopy.reporters.clipped_lines import clip, columns, without_tabs

LONG = "    total = total + self.project(self.norm(hidden_states.reshape(batch, -1))).clone().float().sum(dim=1)"
WIDTHS = (40, 60, 80, 200)


def shown(text, width, *parts):
    """The finding's lines of source and marks, without the gutter."""
    places = tuple(
        Place(role, SourceLine("a.py", 7, text.index(part) + 1, text.index(part) + 1 + len(part), text))
        for part, role in parts
    )
    lines = finding_as_text(Finding("TC201", "message", places), width).splitlines()
    assert max(map(cell_len, lines)) <= width
    begin = lines.index("  |") + 1
    return [line[4:] for line in lines[begin : next(at for at, line in enumerate(lines) if " = once" in line)]]


def below(source, marks):
    """What stands above the carets, in columns of a terminal."""
    cells = "".join(character * cell_len(character) for character in source)
    return cells[marks.index("^") : marks.rindex("^") + 1]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("text", "part"),
    [
        (LONG, "hidden_states"),
        (LONG, "self.norm(hidden_states"),
        (LONG, "sum(dim=1)"),
        (LONG, "total"),
        ("x = y.clone()", "y.clone()"),
        ("\tif ready:\tx = [" + "y, " * 20 + "z.clone()]", "z.clone()"),
    ],
    ids=["middle", "longer", "end", "beginning", "short", "tabs"],
)
def test_carets_stand_below_what_they_mean(text, part, width):
    source, marks, *_ = shown(text, width, (part, "copied here"))
    assert below(source, marks) == part
    assert "copied here" in "\n".join(shown(text, width, (part, "copied here"))[1:])
    assert ("…" in source) == (len(without_tabs(text.strip(), [])[0]) > width - 4)


@pytest.mark.parametrize("width", [40, 60])
def test_of_an_expression_that_is_too_long_the_beginning_is_shown(width):
    part = LONG.strip()[8:]
    source, marks, role = shown(LONG, width, (part, "copied here"))
    assert below(source, marks).endswith("…")
    assert part.startswith(below(source, marks)[:-1])
    assert role.strip() == "copied here"


@pytest.mark.parametrize("width", WIDTHS)
def test_wide_characters_take_two_columns(width):
    text = "名前 = '" + "日本語" * 12 + "'; x = y.clone()  # コピー" + "コピー" * 12
    source, marks, *_ = shown(text, width, ("y.clone()", "copied here"))
    assert below(source, marks) == "y.clone()"


def test_of_a_chain_of_calls_that_is_too_long_the_last_one_is_shown():
    chain = "self.qkv(self.norm(hidden_states)).reshape(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)"
    first, second = f"{chain}.contiguous()", f"{chain}.contiguous().clone()"
    source, *marks = shown(f"q = {second}.unbind(0)", 80, (first, "copied here"), (second, "and again"))
    assert [below(source, each) for each in marks if "^" in each] == [".contiguous()", ".clone()"]
    assert "copied here" in marks[0]
    assert marks[-1].strip() == "and again"


def test_a_role_without_room_beside_the_carets_stands_below_them():
    text = "loss = criterion(model(inputs), targets)"
    source, marks, role = shown(text, 50, ("targets", "overwritten here"))
    assert source == text
    assert below(source, marks) == "targets"
    assert role.strip() == "overwritten here"


def test_an_expression_that_goes_on_in_the_next_line_is_underlined_to_the_end():
    line = SourceLine("a.py", 7, 5, None, "x = torch.cat(")
    lines = finding_as_text(Finding("TC201", "message", (Place("copied here", line),))).splitlines()
    assert lines[3:5] == ["7 | x = torch.cat(", "  |     ^^^^^^^^^^ copied here"]


def test_a_line_with_several_parts_is_shown_once():
    text = "x = y.double().float()"
    assert shown(text, 80, ("y.double()", "copied here"), ("y.double().float()", "and copied again here")) == [
        "x = y.double().float()",
        "    ^^^^^^^^^^ copied here",
        "    ^^^^^^^^^^^^^^^^^^ and copied again here",
    ]
    assert shown(text, 80, ("y.double()", "copied here"), ("y.double()", "read here")) == [
        "x = y.double().float()",
        "    ^^^^^^^^^^ copied here; read here",
    ]


def test_a_line_that_has_a_part_again_after_another_one_says_so():
    taken, written, _ = hazard().places
    finding = dataclasses.replace(hazard(), places=(taken, written, Place("read here", taken.line)))
    text = finding_as_text(finding)
    assert text.count("best, best_accuracy = model.state_dict(), accuracy") == 1
    assert "taken here; later read here" in text


def test_a_line_without_source_is_named_and_no_more():
    finding = Finding("TC201", "message", (Place("copied here", SourceLine("<stdin>", 3)),))
    assert finding_as_text(finding).splitlines()[1:4] == [" --> <stdin>:3", "  |", "  | copied here"]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_whole_report_fits(width):
    stream = io.StringIO()
    long = source_line("train.py", "images.clone()")
    path = "packages/of/a/deeply/nested/project/with/many/folders/train.py"
    deep = dataclasses.replace(report().copies[0], line=dataclasses.replace(long, path=path))
    show(report(copies=(deep, *report().copies)), stream, width=width)
    lines = stream.getvalue().splitlines()
    too_long = [line for line in lines if cell_len(line) > width and not line.startswith("packages/")]
    assert not too_long
    assert any(line.split("  ")[0].endswith(f"train.py:{long.line}") and line[0] in "…p" for line in lines)
    words = " ".join(stream.getvalue().split())
    assert words.count("redundant") == (4 if width < 100 else 1)
    assert "this comment silences nothing: # torchcopy: ignore[TC205] torchcopy audit:" in words


TEXTS = st.text(alphabet="ab \t日é́​", min_size=1, max_size=60)


@given(text=TEXTS, ends=st.lists(st.integers(0, 60), min_size=2, max_size=4), room=st.integers(12, 80))
def test_a_clipped_line_fits_and_keeps_what_is_underlined(text, ends, room):
    ends = [min(end, len(text)) for end in ends]
    spans = [tuple(sorted(pair)) for pair in itertools.pairwise(ends)]
    text, spans = without_tabs(text, spans)
    clipped, moved = clip(text, spans, room)
    assert columns(clipped) <= room
    for (start, end), (new_start, new_end) in zip(spans, moved, strict=True):
        assert 0 <= new_start <= new_end <= len(clipped)
        part = clipped[new_start:new_end]
        assert text[start:end].startswith(part.removesuffix("…"))
        if columns(text) <= room:
            assert part == text[start:end]
