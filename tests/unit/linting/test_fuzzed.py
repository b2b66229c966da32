"""No source crashes the linter: programs with pieces cut, doubled and mixed, and texts of any characters."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lint_fixtures
import torchcopy
from torchcopy.linting.checking import check
from torchcopy.linting.documents import NotebookFile, PythonFile
from torchcopy.linting.fixing import fix
from torchcopy.linting.project import Project
from torchcopy.linting.reading import NotReadError, TextFile, decode
from torchcopy.linting.settings import LINTED_CODES
from torchcopy.linting.source import Source

PIECES = [
    *'( ) [ ] { } , : ; . = == += -> := * ** @ # \\ \' " """ f\' f" é 😀 \u2028 \0 0 1e9 1_0'.split(" "),
    *"t.clone() .detach() .data .numpy() .state_dict() load_state_dict( copy.deepcopy( torch.save(".split(" "),
    *"for x in y:|if x:|else:|while 1:|try:|except E:|with a as b:|def f(x):|class C(nn.Module):".split("|"),
    *"return yield await lambda global nonlocal del pass break import from as assert raise match".split(" "),
    *("\n", "\r\n", "\r", "\t", "\x0c", "\n    ", "\n        "),
    *("self.best = ", "import torch\n", "total += loss", "loss.backward()"),
    *("# torchcopy: ignore", "# noqa: TC203"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["cells", "cell_type", "source", "metadata", "code"]), inner, max_size=4)
    ),
    max_leaves=20,
)


def look_at(text):
    """Checks and fixes a text; what cannot be parsed is told, and nothing else may happen."""
    try:
        checked = check(Source("x.py", text), LINTED_CODES, Project())
    except NotReadError:
        return False
    assert checked.faults == ()
    lines = Source("x.py", text).lines
    for finding in checked.findings:
        assert 1 <= finding.line <= finding.end_line <= len(lines)
        assert 1 <= finding.column <= len(lines[finding.line - 1]) + 1
    fixed = fix(PythonFile("x.py", TextFile(text)), LINTED_CODES, Project(), unsafe=True)
    assert Source("x.py", fixed.document.source.text).tree  # it parses
    assert fix(fixed.document, LINTED_CODES, Project(), unsafe=True).record is None
    return True


def mutated(text, other, draw):
    """A program with pieces cut, doubled, swapped, put in and taken from another."""
    for _ in range(draw.randint(1, 4)):
        lines = text.splitlines(keepends=True) or [""]
        at, end = sorted(draw.randint(0, len(lines)) for _ in range(2))
        place = draw.randint(0, len(text))
        match draw.randint(0, 7):
            case 0:
                del lines[at : min(end, at + 3)]
            case 1:
                lines[at:at] = lines[at : min(end, at + 5)]
            case 2:
                lines[at:at] = draw.sample(other.splitlines(keepends=True) or [""], 1)
            case 3 | 4:
                lines = [text[:place] + draw.choice(PIECES) + text[place:]]
            case 5:
                lines = [text[:place] + text[place + draw.randint(1, 9) :]]
            case 6 if at < len(lines):
                lines[at] = "    " + lines[at]
            case _:
                draw.shuffle(lines[at:end])
        text = "".join(lines)
    return text


def programs():
    ours = [path for path in Path(torchcopy.__file__).parent.rglob("*.py") if path.stat().st_size < 9_000]
    return [path.read_text(encoding="utf-8") for path in [*lint_fixtures.FILES, *sorted(ours)]]


def fuzz(rounds, seed):
    draw = random.Random(seed)
    texts = programs()
    return sum(look_at(mutated(draw.choice(texts), draw.choice(texts), draw)) for _ in range(rounds))


@pytest.mark.parametrize("path", lint_fixtures.FILES, ids=lint_fixtures.name_of)
def test_fixtures_go_through(path):
    assert look_at(path.read_text(encoding="utf-8"))


def test_mutated_programs():
    parsed = fuzz(400, seed=1)
    assert parsed > 40  # else nothing but the parser was tested


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_many_mutated_programs(seed):
    assert fuzz(5_000, seed=seed + 100) > 500


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
@settings(max_examples=200, deadline=None)
def test_pieces_in_any_order(text):
    look_at(text)


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_bytes(content):
    try:
        text = decode(content).text
    except NotReadError:
        return
    look_at(text)


@given(JSON)
@settings(max_examples=100, deadline=None)
def test_any_json_as_a_notebook(value):
    try:
        document = NotebookFile("x.ipynb", TextFile(json.dumps(value)))
    except NotReadError:
        return
    assert check(document.source, LINTED_CODES, Project()).faults == ()
