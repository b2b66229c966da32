"""Thousands of snapshots of a run that never stops stepping: none torn, no hang, no memory lost.

`tests/stress/history_soak.py` may hang or crash, so it runs in processes of its own.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from training_runs import MODES

PROGRAM = Path(__file__).parents[1] / "stress" / "history_soak.py"


def soak(*options, timeout):
    command = [sys.executable, str(PROGRAM), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_short_soak_in_each_mode():
    code, out, error = soak("--takes", "200", timeout=120)
    assert (code, out) == (0, "".join(f"clean: 200 takes, {mode}\n" for mode in MODES)), error


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_ten_thousand_takes(mode):
    code, out, error = soak("--mode", mode, "--takes", "10000", "--seed", "1", timeout=1800)
    assert (code, out) == (0, f"clean: 10000 takes, {mode}\n"), error


@pytest.mark.slow
def test_a_staging_thread_that_moves_each_tensor_by_itself():
    """It meets the training thread in the midst of a snapshot more often."""
    code, out, error = soak("--mode", "background", "--takes", "2000", "--chunk", "1", timeout=900)
    assert (code, out) == (0, "clean: 2000 takes, background\n"), error
