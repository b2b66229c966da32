"""Programs run twice, plain and audited, as processes of their own."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from torchcopy.auditing.records import Report

HERE = Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Run:
    """What a process has left: its exit status and what it printed; a signal that ended it is a negative status."""

    status: int
    out: str
    err: str


def programs(folder, quick):
    """The programs of a folder beside this file; all but those named in `quick` are slow tests."""
    found = sorted(path for path in (HERE / folder).glob("*.py"))
    assert {path.stem for path in found} >= quick
    return [path if path.stem in quick else pytest.param(path, marks=pytest.mark.slow) for path in found]


def environment(**more):
    """One thread, a fixed order of sets, a fixed width, and the tools that the programs share."""
    shared = os.pathsep.join((str(HERE.parent), str(HERE / "audit_tools")))
    fixed = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "COLUMNS": "100", "PYTHONPATH": shared}
    return {**os.environ, **fixed, **more}


def run_both(arguments, report, folder, *, options=(), text="typed\n"):
    """The runs, both at once: as `python` runs it, and audited with a JSON report in `report`."""
    audited = ["-m", "torchcopy", "audit", "--json", str(report), *options]
    started = [
        subprocess.Popen(
            [sys.executable, *before, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment(),
        )
        for before in ([], audited)
    ]
    for process in started:
        process.stdin.write(text)
        process.stdin.flush()
    return tuple(_ended(process) for process in started)


def _ended(process):
    try:
        out, err = process.communicate(timeout=100)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    return Run(process.returncode, without_addresses(out), without_addresses(err))


def without_addresses(text):
    """`<object at 0x7f…>` differs from process to process, as do times."""
    text = re.sub(r"(?m)^USDT:.*\n", "", text)  # the profiler's own log, with times
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", text)


def inserted(plain, audited):
    """What one text has in one place that the other has not; None if they differ elsewhere too."""
    surplus = len(audited) - len(plain)
    at = next((k for k, (a, b) in enumerate(zip(plain, audited, strict=False)) if a != b), len(plain))
    if surplus < 0 or audited[at + surplus :] != plain[at:]:
        return None
    return audited[at : at + surplus]


def load_report(path):
    """The report of an audited run; None if it wrote none."""
    return Report.load(path) if path.exists() else None
