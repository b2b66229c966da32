"""Facts are carried through the statements as the program may run."""

import ast

import pytest

from torchcopy.linting.inference.flow import Flow


class Assignments(Flow[str]):
    """Which of the calls `a()`, `b()` … may have been the last but for `clear()`, and what holds at `see()`."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def visit(self, node, facts):
        for each in ast.walk(node):
            if isinstance(each, ast.Call):
                name = each.func.id
                if name == "see":
                    self.seen |= facts
                elif name == "clear":
                    facts = frozenset()
                else:
                    facts |= {name}
        return facts


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a()\nsee()", "a"),
        ("see()\na()", ""),
        ("a()\nclear()\nsee()", ""),
        ("if x:\n    a()\nelse:\n    b()\nsee()", "ab"),
        ("if x:\n    a()\n    return\nsee()", ""),
        ("if x:\n    a()\n    raise e\nsee()", ""),
        ("for x in y:\n    see()\n    a()", "a"),
        ("for x in y:\n    a()\n    clear()\nsee()", ""),
        ("for x in y:\n    a()\n    if x:\n        break\n    clear()\nsee()", "a"),
        ("for x in y:\n    if x:\n        a()\n        continue\n    b()\nsee()", "ab"),
        ("while True:\n    a()\n    if x:\n        break\n    clear()\nelse:\n    b()\nsee()", "a"),
        ("for x in y:\n    clear()\nelse:\n    a()\nsee()", "a"),
        ("try:\n    a()\n    b()\nexcept E:\n    see()", "ab"),
        ("try:\n    a()\nfinally:\n    see()", "a"),
        ("try:\n    pass\nexcept E:\n    a()\nsee()", "a"),
        ("with f:\n    a()\nsee()", "a"),
        ("match x:\n    case 1:\n        a()\n    case 2:\n        b()\nsee()", "ab"),
        ("for x in a():\n    pass\nsee()", "a"),
        ("while a():\n    clear()\nsee()", "a"),
    ],
)
def test_what_holds_where(text, seen):
    flow = Assignments()
    flow.run(ast.parse(text).body)
    assert flow.seen == set(seen)


def test_what_holds_at_the_end():
    flow = Assignments()
    flow.run(ast.parse("a()\nif x:\n    b()\n    return\nc()").body)
    assert flow.at_exit == {"a", "b", "c"}


class Visits(Flow[int]):
    """Counts visits; each statement makes a fact, so that every loop is gone through again."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def visit(self, node, facts):
        self.count += 1
        return facts | {id(node)}


def test_loops_in_loops_do_not_double_the_visits_for_ever():
    counts = []
    for depth in (10, 20, 40):
        lines = [f"{' ' * k}for x{k} in xs:\n{' ' * k} y{k} = x{k}\n" for k in range(depth)]
        flow = Visits()
        flow.run(ast.parse("".join(lines)).body)
        counts.append(flow.count / depth)
    assert counts[2] < 2 * counts[1] < 4 * counts[0]
