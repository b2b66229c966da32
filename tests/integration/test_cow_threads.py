"""Lazy clones given up on several threads at once: sound with anchors, and shown not to be without them.

`tests/stress/cow_threads.py` may hang, crash or corrupt its memory, so it runs in processes of its own.
"""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "stress" / "cow_threads.py"
SHORT = ("--threads", "2", "--batch", "512", "--size", "1024")
"""Two threads that go through so many buffers side by side meet at some of them in nearly every round."""
EVEN_ON_ONE_CORE = ("--threads", "4", "--batch", "2048", "--size", "16", "--case", "WriteWrite")
"""Four threads that do little but give buffers up: one of them is stopped midway even if they take turns."""


def run(*options, timeout=120):
    """What became of the program: exit code, and all that it printed."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *options], capture_output=True, text=True, timeout=timeout, check=False
    )
    return done.returncode, done.stdout + done.stderr


def assert_failed(outcome):
    """The process died of its heap, hung until its watchdog ended it, or read values that nobody wrote there."""
    code, printed = outcome
    crashed = code < 0
    hung = "Timeout (" in printed
    corrupt = "instead of" in printed
    refused = "RuntimeError" in printed  # an assertion inside PyTorch
    assert code != 0, printed
    assert crashed or hung or corrupt or refused, printed


def test_a_short_run_is_clean():
    assert run("--rounds", "45", *SHORT) == (0, "clean: 45 rounds, 2 threads\n")


def test_anchors_may_go_at_any_moment():
    outcome = run("--rounds", "270", "--threads", "3", "--sweep")
    assert outcome == (0, "clean: 270 rounds, 3 threads\n")


def test_the_same_program_fails_without_anchors():
    assert_failed(run("--rounds", "5000", *EVEN_ON_ONE_CORE, "--patience", "3", "--without-anchors"))


def test_with_anchors_the_program_that_fails_is_clean():
    assert run("--rounds", "30", *EVEN_ON_ONE_CORE) == (0, "clean: 30 rounds, 4 threads\n")


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 4])
def test_a_long_run_is_clean(threads):
    outcome = run("--rounds", "20000", "--threads", str(threads), timeout=1200)
    assert outcome == (0, f"clean: 20000 rounds, {threads} threads\n")


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 4])
def test_a_long_run_fails_without_anchors(threads):
    """The plainest of the cases is enough: each thread writes, and none has asked for what the others have."""
    options = ("--rounds", "20000", "--threads", str(threads), "--case", "WriteWrite", "--patience", "20")
    assert_failed(run(*options, "--without-anchors", timeout=1200))
