"""`import torchcopy` costs next to nothing beside `import torch`, and loads no library of a report."""

import json
import subprocess
import sys

REPORT_LIBRARIES = {"typer", "rich", "click", "jinja2", "matplotlib", "pydantic", "sklearn"}


def _in_a_fresh_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_import_loads_torch_and_the_standard_library_only():
    code = """
import json, sys
import torch
before = set(sys.modules)
import torchcopy
new = {name.split(".")[0] for name in set(sys.modules) - before}
print(json.dumps(sorted(new - set(sys.stdlib_module_names) - {"torch", "torchcopy"})))
"""
    assert _in_a_fresh_process(code) == []


def test_import_loads_no_report_library_even_through_torch():
    code = """
import json, sys
import torchcopy
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""
    assert REPORT_LIBRARIES & set(_in_a_fresh_process(code)) == set()


def test_using_every_public_name_loads_no_report_library():
    code = """
import json, sys
from torchcopy import *
import torchcopy
assert all(name in globals() for name in torchcopy.__all__)
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""
    loaded = set(_in_a_fresh_process(code))
    assert "torch" in loaded
    assert REPORT_LIBRARIES & loaded == set()


def test_the_linter_loads_neither_torch_nor_a_report_library(tmp_path):
    (tmp_path / "train.py").write_text("def keep(t):\n    return t.clone().detach()\n")
    code = f"""
import contextlib, io, json, sys
from torchcopy.commands import run
with contextlib.redirect_stdout(io.StringIO()) as printed:
    status = run(["lint", "--no-cache", {str(tmp_path)!r}])
assert status == 1 and "TC203" in printed.getvalue(), printed.getvalue()
print(json.dumps(sorted({{name.split(".")[0] for name in sys.modules}})))
"""
    loaded = set(_in_a_fresh_process(code))
    assert not loaded & {"torch", "numpy", "rich", "jinja2"}
