"""Runs a short program under an audit, and compares the lines that a finding names with those that are marked."""

import ast
import re
import runpy
import textwrap

import torchcopy as tc

_START = "import copy\nimport torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
_MARK = re.compile(r"# (\w+)$")


def train(model, steps=3, size=4):
    """Trains a model on noise."""
    return f"""
optimizer = torch.optim.SGD({model}.parameters(), lr=0.1)
for _ in range({steps}):
    optimizer.zero_grad()
    {model}(torch.randn(8, {size})).square().mean().backward()
    optimizer.step()  # overwritten
"""


def audited(source, folder, **options):
    """The findings of a program, and its lines by their marks."""
    text = _START + textwrap.dedent(source)
    ast.parse(text)
    path = folder / "program.py"
    path.write_text(text, encoding="utf-8")
    with tc.audit(**options) as audit:
        runpy.run_path(str(path), run_name="__main__")
    marks = {m[1]: number for number, line in enumerate(text.splitlines(), 1) if (m := _MARK.search(line))}
    return audit.report.findings, marks


def lines_named(findings, code):
    """For each finding of a code, the lines that it names, in its order."""
    return [tuple(place.line.line for place in f.places) for f in findings if f.code == code]


def hazards(findings):
    """The codes of the hazards among some findings."""
    return [(f.code, f.message) for f in findings if f.code.startswith("TC1")]
