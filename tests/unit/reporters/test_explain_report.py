"""The codes in the terminal: in full and as a list, with colours and without."""

import io
import re

import pytest
from rich.console import Console

from torchcopy.reporters import explain as report
from torchcopy.semantics.codes import CODES, Code, find_code

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def shown(monkeypatch):
    def call(show, codes, *, width=80, terminal=False, **options):
        stream = io.StringIO()
        colours = "standard" if terminal else None
        console = Console(file=stream, width=width, force_terminal=terminal, color_system=colours, **options)
        monkeypatch.setattr(report, "console", lambda: console)
        show(codes)
        return stream.getvalue()

    return call


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.code)
@pytest.mark.parametrize("terminal", [False, True], ids=["piped", "terminal"])
def test_lines_fit_80_columns_and_end_without_spaces(shown, code, terminal):
    out = ESCAPE.sub("", shown(report.show, [code], terminal=terminal))
    for line in out.splitlines():
        assert len(line) <= 80
        assert line == line.rstrip()


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.code)
@pytest.mark.parametrize("terminal", [False, True], ids=["piped", "terminal"])
def test_programs_can_be_taken_out_of_it_and_run(shown, code, terminal):
    out = ESCAPE.sub("", shown(report.show, [code], terminal=terminal))
    for heading, program in (("Wrong", code.wrong), ("Right", code.right)):
        lines = out.split(f"\n{heading}\n", 1)[1].splitlines()
        taken = [line.removeprefix("  ") for line in lines[: len(program.splitlines())]]
        assert taken == program.splitlines()


def test_everything_is_told_in_its_order(shown):
    code = find_code("TC101")
    out = shown(report.show, [code], width=100)
    parts = [code.title, "hazard stale-state-dict", "makes a new dictionary", "PyTorch says nothing", "\nWrong\n"]
    parts += ["\nRight\n", "\nWhat to write\n", "tc.History", "\nDiscussed in\n", *code.threads]
    places = [out.index(part) for part in parts]
    assert places == sorted(places)


def test_what_the_linter_sees_is_told_with_an_example(shown):
    code = find_code("TC202")
    out = shown(report.show, [code])
    section = out.split("\nIn source\n")[1].split("\nDiscussed in\n")[0]
    assert "  -kept = t.detach().cpu().clone()\n" in section
    assert '  +kept = t.detach().to("cpu", copy=True)\n' in section
    assert "`# torchcopy: ignore[TC202]`" in section
    assert "In source" not in shown(report.show, [find_code("TC201")])


def test_colours_only_where_there_are_some(shown):
    code = find_code("TC102")
    assert "\x1b[" not in shown(report.show, [code])
    without = shown(report.show, [code], terminal=True, no_color=True)
    assert "`h**2` saves `h`" in ESCAPE.sub("", without)
    assert not re.search(r"\x1b\[[0-9;]*3\d", without)
    with_colours = shown(report.show, [code], terminal=True)
    assert "\x1b[36mh**2\x1b[0m saves \x1b[36mh\x1b[0m" in with_colours
    assert "\x1b[35mimport\x1b[0m torch" in with_colours


def test_no_colour_that_is_lost_on_light_or_on_dark(shown):
    out = shown(report.show, CODES, terminal=True) + shown(report.show_list, CODES, terminal=True)
    used = {part for codes in re.findall(r"\x1b\[([0-9;]*)m", out) for part in codes.split(";")}
    assert used <= {"0", "1", "2", "3", "32", "35", "36"}  # no white, black, yellow, blue, and no background


def test_a_code_without_threads_has_no_heading_for_them(shown):
    assert "Discussed in" not in shown(report.show, [find_code("TC201")])


def test_square_brackets_are_not_taken_for_styles(shown):
    code = Code("TC399", "a-name", "`x[0]` [bold]", "[red]one[/red]\n\ntwo `[i]`", "x = [0]\n", "x\n", "[b].")
    for terminal in (False, True):
        out = ESCAPE.sub("", shown(report.show, [code], terminal=terminal))
        for text in ("[bold]", "[red]one[/red]", "[i]", "  x = [0]\n", "  [b].\n"):
            assert text in out
    assert "x[0]" in shown(report.show_list, [code])


def test_a_list_says_what_finds_each(shown):
    out = shown(report.show_list, CODES)
    lines = {line.split()[0]: line.split()[-2:] for line in out.splitlines() if line.startswith("TC")}
    assert lines["TC101"] == ["yes", "yes"]
    assert lines["TC103"] == ["yes", "–"]
    assert lines["TC209"] == ["–", "yes"]
    assert lines["TC301"] == ["opt-in", "opt-in"]
    assert len(lines) == len(CODES)
    assert "opt-in: only where it is selected" in " ".join(out.split())


def test_a_list_has_a_line_for_each_and_the_families_it_needs(shown):
    out = shown(report.show_list, CODES)
    assert max(len(line) for line in out.splitlines()) <= 80
    assert all(heading in out for heading in report.FAMILIES.values())
    waste = shown(report.show_list, [code for code in CODES if code.family == "waste"])
    assert [heading in waste for heading in report.FAMILIES.values()] == [False, True, False]
    assert "opt-in" not in waste


def test_a_narrow_terminal_loses_no_word(shown):
    code = find_code("TC105")
    out = ESCAPE.sub("", shown(report.show, [code], width=30))
    assert [word for word in " ".join(out.split()).split() if word == "activation"]
    for paragraph in report.paragraphs(code):
        assert paragraph in " ".join(out.split())
