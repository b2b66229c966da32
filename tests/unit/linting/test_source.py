"""Where the nodes of a source are in its text."""

import ast

import pytest

from torchcopy.linting.findings import Edit, Fix
from torchcopy.linting.source import Source


@pytest.mark.parametrize(
    ("text", "segment", "place"),
    [
        ("x = f(1)\n", "f(1)", (1, 5)),
        ("é = f(1)", "f(1)", (1, 5)),
        ("'😀'; x = f(1)", "f(1)", (1, 10)),
        ("\r\n\r\nx = f(\r\n  1)\r\n", "f(\r\n  1)", (3, 5)),
        ("'a\x0cb\u2028c'\ny = f('é',\n 2)", "f('é',\n 2)", (2, 5)),
        ("x = 1\ry = f(1)", "f(1)", (2, 5)),
        ("if 1:\n\tx = f(1)", "f(1)", (2, 6)),
    ],
)
def test_a_node_is_found_in_the_text(text, segment, place):
    source = Source("x.py", text)
    (call,) = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call)]
    assert source.segment(call) == segment
    found = source.finding("TC203", "wrong", call)
    assert (found.line, found.column) == place
    lines = segment.replace("\r\n", "\n").split("\n")
    assert found.end_line == found.line + len(lines) - 1
    assert source.place(source.end(call)) == (found.end_line, found.end_column)


def test_a_fix_inside_of_an_f_string_is_made_only_where_its_place_is_known():
    source = Source("x.py", "x = f'''\n{t.clone().detach()}'''\n")
    call = next(node for node in ast.walk(source.tree) if isinstance(node, ast.Call))
    found = source.finding("TC203", "wrong", call, fix=Fix((source.replace(call, "t"),)))
    if found.fix is not None:
        assert source.segment(call) == "t.clone().detach()"


def test_places_beyond_the_text_are_its_end():
    source = Source("x.py", "x = 1\n")
    assert source.offset(9, 3) == len(source.text)
    assert source.line_at(9) == source.line_at(0) == ""
    assert source.is_placed(Edit(0, 1, "y"))
