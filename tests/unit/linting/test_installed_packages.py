"""Every file that is installed beside the tests: none crashes a rule, and PyTorch's own source has no mistakes."""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

CRASHES = ("nested too deeply to be checked", "a fault of")


@pytest.mark.slow
def test_no_installed_file_crashes_a_rule_and_none_of_pytorch_is_reported():
    installed = Path(sysconfig.get_path("purelib"))
    command = [sys.executable, "-m", "torchcopy", "lint", "--no-cache", "--output-format", "json", str(installed)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert [each for each in done.stderr.splitlines() if any(one in each for one in CRASHES)] == []
    found = json.loads(done.stdout)
    for each in found:
        each["path"] = Path(each["path"]).absolute()  # what is below the working directory is written from there
    assert {each["code"] for each in found} > {"TC202", "TC203"}, "nothing was checked"
    own = {installed / each for each in ("torch", "transformers", "lightning")}
    mistakes = [each for each in found if each["code"].startswith("TC1")]
    assert [each for each in mistakes if own & {*each["path"].parents}] == []
    assert any(installed in each["path"].parents for each in found), "paths are written otherwise"
