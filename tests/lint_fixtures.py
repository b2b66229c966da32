"""The fixtures of the linter's rules: files whose marked lines are to be found, and pairs before and after a fix.

In `tests/fixtures/lint/TC101/`, a comment `# finds TC101` marks the line of a finding; two on one line are
`# finds TC101, TC101`. A file without a mark has to be clean. `x.in.py` becomes `x.out.py` by `--fix`, and
`x.unsafe.in.py` becomes `x.unsafe.out.py` by `--fix --unsafe-fixes`. A folder is a project of several files.

A pair is run, before and after: what its names hold has to be the same. `# not run: why` as the first line says
that one cannot be; `# may change: a, b` names what an unsafe fix changes.
"""

import ast
import io
import numbers
import re
import tokenize
from pathlib import Path

import torch

from torchcopy.linting.fix_options import FixOptions
from torchcopy.linting.one_file import check_file
from torchcopy.linting.project import Project
from torchcopy.linting.settings import DEFAULT_CODES

FOLDER = Path(__file__).parent / "fixtures" / "lint"
FILES = sorted(FOLDER.glob("TC[0-9]*/**/*.py"))
PAIRS = [path for path in FILES if path.name.endswith(".in.py")]
MARKED = [path for path in FILES if not path.name.endswith((".in.py", ".out.py"))]


def code_of(path):
    return path.relative_to(FOLDER).parts[0]


def name_of(path):
    return str(path.relative_to(FOLDER))


def marks(path):
    """Line and code of each finding that a file marks, in order."""
    text = path.read_text(encoding="utf-8")
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        mark = re.search(r"# finds (TC\d+(?:, TC\d+)*)", token.string) if token.type == tokenize.COMMENT else None
        if mark:
            found += [(token.start[0], code) for code in mark[1].split(", ")]
    return sorted(found)


def findings(path):
    """What is found in a file, and nothing else may have happened."""
    return findings_at(path, code_of(path), FixOptions())


def findings_at(path, code, fix_options):
    """The same in a file that lies elsewhere, for a fixture's code; its fixes are made."""
    result, _ = check_file(str(path), DEFAULT_CODES | {code}, Project(), fix_options)
    assert result.skipped == ()
    return result


def items(code):
    """The bad and the good fixtures of a code; a project of several files counts once."""
    bad, good = set(), set()
    for path in FILES:
        if code_of(path) != code or path.name.endswith(".out.py"):
            continue
        item = path.relative_to(FOLDER / code).parts[0]
        (bad if path.name.endswith(".in.py") or marks(path) else good).add(item)
    return bad, good - bad


def first_line(text, words):
    found = re.match(rf"# {words}: (.+)", text)
    return found[1].strip() if found else ""


def run(text, name):
    """What the names of a program hold once it has run."""
    torch.manual_seed(0)
    names = {"__name__": "__main__", "__file__": name}
    exec(compile(ast.parse(text), name, "exec"), names)
    return {key: plain(value) for key, value in names.items() if not key.startswith("__")}


def plain(value, depth=6):
    """A value as what can be compared; of what cannot be, the type."""
    if isinstance(value, torch.Tensor):
        kept = value.detach().cpu()
        return type(value).__name__, str(value.dtype), value.requires_grad, tuple(value.shape), kept.tolist()
    if value is None or isinstance(value, (str, bytes, bool, numbers.Number)):
        return value
    if hasattr(value, "dtype") and hasattr(value, "tolist"):  # NumPy
        return str(value.dtype), value.tolist()
    if depth and isinstance(value, dict):
        return {str(key): plain(each, depth - 1) for key, each in value.items()}
    if depth and isinstance(value, (list, tuple)):
        return [plain(each, depth - 1) for each in value]
    if depth and isinstance(value, (torch.nn.Module, torch.optim.Optimizer)):
        return plain(value.state_dict(), depth - 1)
    return type(value).__name__
