"""The codes: their programs run and show what they say, and they are found by code, name and prefix."""

import dataclasses
import json
import re

import pytest

from case_names import without_address
from torchcopy import InputError
from torchcopy.semantics.codes import CODES, find_code, match_codes

AUDITED = "101 102 103 104 105 106 107 108 109 110 201 202 203 204 205 207 208 301".split()
LINTED = "101 102 104 105 106 109 110 202 203 204 208 209 301".split()


def by_code(codes=CODES):
    return pytest.mark.parametrize("code", codes, ids=lambda code: code.code)


def names(codes):
    return [code.code for code in codes]


# --- the table -----------------------------------------------------------------------------------------------


def test_codes_are_sorted_and_unique():
    assert names(CODES) == sorted(set(names(CODES)))
    assert len({code.name for code in CODES}) == len(CODES)
    assert len({code.title for code in CODES}) == len(CODES)


def test_which_are_audited_linted_and_on():
    assert [code.code for code in CODES if code.audited] == [f"TC{number}" for number in AUDITED]
    assert [code.code for code in CODES if code.linted] == [f"TC{number}" for number in LINTED]
    assert [code.code for code in CODES if not code.on] == ["TC301"]
    assert all(code.audited or code.linted for code in CODES)
    assert [code for code in CODES if code.linted != (code.in_source is not None)] == []


@by_code()
def test_the_first_digit_is_the_family(code):
    assert re.fullmatch(r"TC[123]\d\d", code.code)
    assert code.family == {"1": "hazard", "2": "waste", "3": "idiom"}[code.code[2]]


@by_code()
def test_words_fit_where_they_are_shown(code):
    assert re.fullmatch(r"[a-z]+(-[a-z]+)+", code.name)
    assert len(code.title) <= 56  # what a list of 80 columns has room for
    assert not code.title.endswith(".")
    assert code.fix.endswith(".")
    assert len(code.story.split("\n\n")) >= 3
    sees = code.in_source.sees if code.in_source else "–"
    for text in (code.title, code.story, code.fix, sees):
        assert text.count("`") % 2 == 0
        assert text == text.strip()
        assert not re.search(r"[*_<>\[\]\\#|]", re.sub(r"`[^`]*`", "", text))  # would be markup on a page
    for url in code.threads:
        assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", url)
    assert len(set(code.threads)) == len(code.threads)


@by_code()
def test_codes_that_a_story_names_are_there(code):
    named = set(re.findall(r"\bTC\d+\b", code.story + code.fix))
    assert named <= set(names(CODES))


@by_code()
def test_as_plain_data(code):
    data = json.loads(json.dumps(code.to_dict()))
    assert data["family"] == code.family
    assert (data["code"], data["wrong"], data["threads"]) == (code.code, code.wrong, list(code.threads))


def test_a_code_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CODES[0].title = "another"


# --- the programs --------------------------------------------------------------------------------------------


def run_program(program, name="program"):
    exec(compile(program, f"<{name}>", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("kind", ["wrong", "right"])
@by_code()
def test_programs_run_and_what_they_assert_holds(code, kind):
    run_program(getattr(code, kind), f"{code.code} {kind}")


@pytest.mark.parametrize("kind", ["wrong", "right"])
@by_code()
def test_programs_are_short_and_complete(code, kind):
    program = getattr(code, kind)
    lines = program.splitlines()
    assert program.endswith("\n")
    assert 5 <= len(lines) <= 15
    assert max(map(len, lines)) <= 76  # with what stands before it, a line of 80 columns
    assert "import torch\n" in program
    imported = set(re.findall(r"^(?:import|from) (\w+)", program, re.M))
    assert imported <= {"torch", "torchcopy", "copy", "warnings"}
    assert any(line.lstrip().startswith("assert ") for line in lines)


# The others differ in time and memory alone, or, as TC104, on a GPU alone.
DIFFERENT = [code for code in CODES if code.code not in ("TC104", "TC201", "TC202", "TC203", "TC208")]


@by_code(DIFFERENT)
def test_what_the_right_program_asserts_is_not_so_in_the_wrong_one(code):
    wrong = "".join(line for line in code.wrong.splitlines(keepends=True) if not line.startswith("assert "))
    asserts = "".join(line for line in code.right.splitlines(keepends=True) if line.startswith("assert "))
    run_program(wrong)
    with pytest.raises(AssertionError):
        run_program(wrong + asserts)


# --- looking up ----------------------------------------------------------------------------------------------


@by_code()
def test_codes_are_found_by_code_and_by_name(code):
    assert find_code(code.code) is code
    assert find_code(code.code.lower()) is code
    assert find_code(f" {code.name} ") is code
    assert match_codes([code.code]) == (code,)
    assert match_codes(code.name) == (code,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("TC999", "there is no code 'TC999': `torchcopy explain` lists them all"),
        ("TC206", "there is no code 'TC206': there are TC201, TC202, TC203, .*TC209$"),
        ("101", "there is no code '101': did you mean 'TC101'"),
        ("TC1", "there is no code 'TC1': there are TC101, .*TC110$"),
        ("stale-statedict", "there is no code 'stale-statedict': did you mean 'stale-state-dict'?"),
        ("", "there is no code '': `torchcopy explain` lists them all"),
        ("\x1b[31mTC101", r"there is no code '\\x1b\[31mTC101'"),
        ("x" * 100_000, "there is no code 'x{38}…: "),
        (101, "a code is a text such as 'TC101'; got 101"),
        (None, "a code is a text such as 'TC101'; got None"),
    ],
)
def test_what_is_no_code_is_refused_with_what_is_close(given, message):
    with pytest.raises(InputError, match=message) as caught:
        find_code(given)
    assert len(str(caught.value)) < 130


@pytest.mark.parametrize(
    ("prefixes", "expected"),
    [
        (["TC10"], [f"TC{n}" for n in range(101, 110)]),
        (["TC3", "TC11"], ["TC110", "TC301"]),
        ("TC204,TC1", [*(f"TC{n}" for n in range(101, 111)), "TC204"]),
        (["tc204", "TC204", "tensor-of-tensor"], ["TC204"]),
        (["TC"], names(CODES)),
        (("TC208,",), ["TC208"]),
        ((name for name in ["TC301"]), ["TC301"]),
        ([], []),
    ],
    ids=without_address,
)
def test_prefixes_select_codes_in_their_order(prefixes, expected):
    assert names(match_codes(prefixes)) == expected


@pytest.mark.parametrize(
    ("prefixes", "message"),
    [
        (["TC9"], "no code begins with 'TC9'"),
        (["TC1", "TC206"], "no code begins with 'TC206': there are TC201"),
        (["T"], "no code begins with 'T'"),
        (["1"], "no code begins with '1': there are TC101"),
        ("", "no code begins with ''"),
        (",", "no code begins with ''"),
        (["TC101*"], r"no code begins with 'TC101\*': did you mean 'TC101'"),
        ([101], "a code is a text such as 'TC101'; got 101"),
        (None, r"codes are a list such as \['TC1', 'TC204'\]; got None"),
    ],
)
def test_a_prefix_of_no_code_is_refused(prefixes, message):
    with pytest.raises(InputError, match=message):
        match_codes(prefixes)
