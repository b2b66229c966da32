"""The copying benchmark runs, and writes what it says that it writes. No time is looked at."""

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "copying.py"
PEERS = {"tensordict": "tensordict", "optree": "optree", "copium": "copium", "copium_state": "copium"}


def run(*arguments):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    done = run("--quick", "--only", "tiny", "--out", out)
    assert done.returncode == 0, done.stderr
    data = json.loads((out / "copying-cpu.json").read_text(encoding="utf-8"))
    return done.stdout, data, out


def test_every_method_is_timed_in_its_states_of_the_memory_or_named_as_missing(tiny):
    printed, data, _ = tiny
    not_there = {method for method, module in PEERS.items() if importlib.util.find_spec(module) is None}
    assert set(data["missing"]) == not_there
    measured = {each["method"]: each for each in data["measurements"]}
    assert {"tc.copy", "tc.fork", "tc.copy_", "tc.lerp_", "deepcopy", "clones", "limit"} <= measured.keys()
    for method, each in measured.items():
        if method in not_there:
            assert each["error"] == f"{PEERS[method]} is not installed"
            assert each["error"] in printed
            continue
        assert each["error"] is None, method
        warm_only = each["makes"] in ("in place", "average")
        assert set(each["seconds"]) <= ({"warm"} if warm_only else {"replaced", "settled", "dropped", "fresh"})
        assert ("warm" if warm_only else "replaced") in each["seconds"]
        assert all(0 < s["low"] <= s["median"] <= s["high"] for s in each["seconds"].values())
        assert len(each["times"]) == data["options"]["rounds"] == 1


def test_a_ratio_is_of_the_medians_of_one_round(tiny):
    _, data, _ = tiny
    seconds = {each["method"]: each["seconds"] for each in data["measurements"]}
    row = next(
        row
        for row in data["rows"]
        if (row["workload"], row["what"], row["against"]) == ("tiny", "tc.copy(model)", "copy.deepcopy")
    )
    for state, found in row["found"].items():
        expected = seconds["deepcopy"][state]["median"] / seconds["tc.copy"][state]["median"]
        assert found["median"] == pytest.approx(expected, rel=2e-3)


def test_a_copy_allocates_its_own_bytes_and_a_fork_none_before_a_write(tiny):
    _, data, _ = tiny
    of = {(each["workload"], each["method"]): each for each in data["memory"]}
    assert of["tiny", "tc.copy"]["peak_bytes"] == of["tiny", "tc.copy"]["own_bytes"] > 0
    assert of["tiny", "tc.fork"]["allocated_bytes"] == 0
    assert of["tiny", "tc.fork"]["allocated_by_write_bytes"] >= of["tiny", "tc.fork"]["written_bytes"] > 0
    floors = [row for row in data["rows"] if row["floor"] is not None]
    assert {row["against"] for row in floors} == {"peak ÷ own bytes", "bytes allocated"}
    assert all(
        row["found"]["warm"]["reached"] is (row["found"]["warm"]["median"] <= row["floor"]) for row in floors
    )


def test_the_machine_the_versions_and_the_plot_are_kept_and_the_report_fits_80_columns(tiny):
    printed, data, out = tiny
    assert data["machine"]["threads"] >= 1
    assert data["run_seconds"] > 0
    assert data["packages"]["torch"] == importlib.metadata.version("torch")
    assert (out / "copying-cpu-speeds.png").stat().st_size > 10_000
    report = printed[: printed.index("Written to")].splitlines()
    assert max(map(len, report)) <= 80
    assert any("tc.copy(model)" in line and "copy.deepcopy" in line for line in report)


def test_what_cannot_be_measured_is_refused_in_one_line(tmp_path):
    done = run("--only", "W9", "--out", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("copying: error: there is no part 'W9': choose from W1, ")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
