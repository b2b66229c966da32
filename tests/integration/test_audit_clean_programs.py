"""Programs without a mistake: an audit finds no hazard in them, and changes nothing."""

import subprocess
import sys

import pytest
from audit_runs import HERE, environment, inserted, load_report, programs, run_both

QUICK = {"accumulated", "adversarial", "best_weights", "checkpointed", "hugging_face_trainer", "lightning_trainer"}
QUICK |= {"moving_averages", "optimizer_adamw_fused", "policy_gradients", "target_network"}


@pytest.mark.parametrize("program", programs("audit_clean", QUICK), ids=lambda path: path.stem)
def test_no_hazard_is_found_in_a_clean_program(program, tmp_path):
    plain, audited = run_both([program.name], tmp_path / "r.json", program.parent)
    assert plain.status == 0, plain.err
    assert audited.out == plain.out
    assert audited.status == 0
    assert inserted(plain.err, audited.err) is not None, audited.err
    report = load_report(tmp_path / "r.json")
    assert [str(finding) for finding in report.hazards] == []
    assert report.audited_steps == report.steps > 0
    assert report.copies or report.opaque


@pytest.mark.slow
@pytest.mark.parametrize("name", ["checkpoint_averaging", "rollback", "training_progress"])
def test_no_hazard_is_found_in_an_example(name, tmp_path):
    """`best_weights` shows a mistake beside the right way, and `digits` measures time: neither is clean."""
    done = subprocess.run(
        [sys.executable, "-m", "torchcopy", "audit", "--json", str(tmp_path / "r.json"), f"examples/{name}.py"],
        cwd=HERE.parents[1],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert [str(finding) for finding in load_report(tmp_path / "r.json").hazards] == []
