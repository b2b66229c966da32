"""The audit benchmark runs, and writes what it says that it writes. No time is looked at."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "audit.py"


def run(*arguments):
    command = [sys.executable, str(SCRIPT), "--quick", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    return done.stdout


def test_each_way_to_watch_is_timed_against_the_plain_run(tmp_path):
    printed = run("--only", "mlp", "--out", tmp_path / "kept.json")
    kept = json.loads((tmp_path / "kept.json").read_text(encoding="utf-8"))
    mlp = kept["workloads"]["mlp"]
    has_scalene = importlib.util.find_spec("scalene") is not None
    modes = ["plain", "audited", "profiler", *(["scalene"] if has_scalene else [])]
    assert list(mlp["step_seconds"]) == modes
    assert list(mlp["whole_seconds"]) == ["plain", "audited", "profiler"]
    assert all(
        len(each) == 1 and each[0] > 0 for what in ("step", "whole") for each in mlp[f"{what}_seconds"].values()
    )
    for what in ("step", "whole"):
        seconds = mlp[f"{what}_seconds"]
        assert mlp[f"{what}_ratios"] == {m: pytest.approx(seconds[m][0] / seconds["plain"][0]) for m in seconds}
    assert mlp["reached"] == {
        "step": mlp["step_ratios"]["audited"] <= 3,
        "faster than the profiler": mlp["whole_seconds"]["audited"] < mlp["whole_seconds"]["profiler"],
    }
    assert mlp["errors"] == ({} if has_scalene else {"scalene": "not installed"})
    assert [mode for mode in ("plain", "audited", "profiler", "scalene") if mode in printed.split()] == [
        *modes,
        *([] if has_scalene else ["scalene"]),
    ]
    assert kept["machine"]["threads"] >= 1
    assert kept["packages"]["torch"]


def test_memory_is_what_an_audited_process_grows_by_over_a_plain_one(tmp_path):
    printed = run("--only", "memory", "--out", tmp_path / "kept.json")
    memory = json.loads((tmp_path / "kept.json").read_text(encoding="utf-8"))["memory"]
    assert memory["steps"] == 2_000
    assert memory["errors"] == {}
    grown = memory["growth_bytes"]
    assert memory["added_bytes"] == grown["audited"] - grown["plain"]
    assert memory["reached"] is (memory["added_bytes"] <= 200_000_000)
    assert "2,000 steps" in printed
